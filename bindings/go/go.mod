module takt

go 1.24
