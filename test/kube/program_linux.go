package kube

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// spawn starts commands so that the kernel kills them when this process ends, also if it is killed itself. The kernel means the
// thread that started them, not the process: so one goroutine starts them all, on a thread that it never gives back. A process
// group of their own keeps a terminal's interrupt from ending them before this process has tidied up.
func spawn(cmd *exec.Cmd) error {
	startSpawner()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr.Setpgid = true
	started := make(chan error)
	spawner <- func() { started <- cmd.Start() }
	return <-started
}

var spawner = make(chan func())

var startSpawner = sync.OnceFunc(func() {
	go func() {
		runtime.LockOSThread()
		for start := range spawner {
			start()
		}
	}()
})
