// Stands for modules of Node.js that bundled packages load but, in what is used of them, never call.
