hit
