package b

	// TODO two
