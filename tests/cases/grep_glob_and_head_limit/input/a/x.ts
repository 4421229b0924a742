hit
hit
