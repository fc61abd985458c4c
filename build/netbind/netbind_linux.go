package netbind

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() { raise() }

// raise makes NET_BIND_SERVICE effective where it is permitted. What fails here fails again, and is then reported, when a port is bound.
func raise() {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // version 3 has two: capabilities 0 to 31, and the others
	if unix.Capget(&header, &data[0]) != nil {
		return
	}
	const bind = 1 << unix.CAP_NET_BIND_SERVICE
	if data[0].Permitted&bind == 0 || data[0].Effective&bind != 0 {
		return
	}
	data[0].Effective |= bind
	// Each thread has its own capabilities, and goroutines move between threads. In a program with
	// cgo, which has threads that Go does not know, there is no error, and these threads stay
	// without the capability.
	//nolint:gosec,dogsled // the system call takes the addresses of both
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
}
