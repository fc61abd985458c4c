package main

import "testing"

func TestTables(t *testing.T) {
	const report = "a name\t1.0 s\n" +
		"a database moves\t20.0 s\n> without an answer\t2.50 s\n  requests\t12\n> to an answer\t1.00 s\n"
	const want = `failover times
a database moves
  without an answer  2.50 s
  to an answer       1.00 s

scenario          time
a name            1.0 s
a database moves  20.0 s
  requests        12
`
	if got := tables(report); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
