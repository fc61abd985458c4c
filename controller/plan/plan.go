package plan

// Plan plans what is missing for one name: the import that the clusterset gives, then everything that belongs to an import.
func Plan(st State) Changes {
	d := Desire(st)
	c := Diff(st, d)
	return Conditions(st, d, c)
}
