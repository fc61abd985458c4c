// Package proc reads what Linux counts about a process.
package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/PID/stat: a hundredth of a second for every program, whatever the kernel's own clock is.
const tick = 10 * time.Millisecond

// CPU is the user and system time that a process has used so far, in all its threads.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(text))
}

// Peak is the most memory that a process ever had resident, in bytes.
func Peak(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return parsePeak(string(text))
}

// parseStat adds the fields 14 and 15. It counts from the end of the second, the program's name in brackets, which may have spaces
// and brackets itself.
func parseStat(text string) (time.Duration, error) {
	const user, system = 14 - 3, 15 - 3
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) <= system {
		return 0, fmt.Errorf("no /proc/PID/stat: %q", text)
	}
	var sum time.Duration
	for _, field := range []string{fields[user], fields[system]} {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read /proc/PID/stat: %w", err)
		}
		sum += time.Duration(ticks) * tick
	}
	return sum, nil
}

func parsePeak(text string) (int64, error) {
	_, rest, _ := strings.Cut(text, "\nVmHWM:")
	line, _, _ := strings.Cut(rest, "\n")
	number, isKiB := strings.CutSuffix(strings.TrimSpace(line), " kB")
	if !isKiB {
		return 0, fmt.Errorf("no VmHWM in /proc/PID/status: %q", text)
	}
	kib, err := strconv.ParseInt(number, 10, 64)
	return kib << 10, err
}
