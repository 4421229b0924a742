// TODO: one
func a() {}
