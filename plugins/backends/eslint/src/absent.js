// Replaces modules of Node.js that bundled packages load but never call.
