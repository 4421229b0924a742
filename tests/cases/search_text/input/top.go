// TODO: not below src
