package main

import "testing"

func TestFiguresHaveNoExponent(t *testing.T) {
	for number, want := range map[float64]string{0: "0", 1.2588: "1.259", 1157.4: "1157", 9999.7: "10000", 17810.4: "17810", 1234567: "1234567"} {
		if got := figure(number); got != want {
			t.Errorf("%v: %s, want %s", number, got, want)
		}
	}
}
