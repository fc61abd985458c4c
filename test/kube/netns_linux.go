package kube

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// insideVariable holds, in the second process, the name of the test that it runs.
const insideVariable = "REALKUBE_INSIDE"

// InNetNS runs the rest of a test as root of a network of its own, without being root outside: body runs in a second process of
// the same test binary, in new user, mount and network namespaces, and its result is this test's. TestMain runs there too. Where
// the system or a needed program says no, the test fails: a skip would pass for a proof.
func InNetNS(t *testing.T, body func(t *testing.T)) {
	t.Helper()
	NotShort(t)
	var output strings.Builder
	inside := false
	err := inNetNS(t.Context(), t.Name(), &output, only(t), func() {
		inside = true
		body(t)
	})
	if inside {
		return
	}
	t.Logf("in its own network:\n%s", &output)
	if err == nil && !strings.Contains(output.String(), "--- PASS: "+t.Name()+" ") { // also where nothing ran at all
		err = errors.New("the test did not pass in its own network")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// inMain stands for the name of a test where the second process runs a whole package.
const inMain = "TestMain"

// MainInNetNS is TestMain's part for a package whose tests share one network, and one API server in it: main, such as Shared.Main,
// is called as the body of InNetNS is.
func MainInNetNS(m *testing.M, main func(*testing.M) int) (code int) {
	flag.Parse()
	inside := os.Getenv(insideVariable)
	if inside != "" && inside != inMain || testing.Short() { // a test of InNetNS, which makes a network of its own; or nothing needs one
		return main(m)
	}
	ctx := context.Background() //nolint:forbidigo // TestMain has no other
	err := inNetNS(ctx, inMain, os.Stdout, os.Args[1:], func() { code = main(m) })
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return failed.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// inNetNS calls body in the second process of that name, and is in the first what starts it and waits for it.
func inNetNS(ctx context.Context, name string, output io.Writer, args []string, body func()) error {
	if os.Getenv(insideVariable) == name {
		if err := makeNetwork(ctx); err != nil {
			return fmt.Errorf("%w\n%s", err, adviceNamespaces)
		}
		body()
		return nil
	}
	if err := Needs("network"); err != nil { // before a cryptic message of theirs
		return err
	}
	err := again(name, output, args...)
	if refused(err) {
		err = fmt.Errorf("%w\n%s", err, adviceNamespaces)
	}
	return err
}

const adviceNamespaces = `This test needs user and network namespaces. Either run it as root, or allow them:
	sysctl -w user.max_user_namespaces=10000
	sysctl -w kernel.unprivileged_userns_clone=1               (older Debian)
	sysctl -w kernel.apparmor_restrict_unprivileged_userns=0   (Ubuntu 24.04 and later)`

// again runs this program a second time, first as root of a user namespace. Root itself may do without one, where the system has
// none to give.
func again(name string, output io.Writer, args ...string) error {
	err := runInside(name, syscall.CLONE_NEWUSER, output, args...)
	if refused(err) && os.Geteuid() == 0 {
		return runInside(name, 0, output, args...)
	}
	return err
}

// refused says whether the system gives no namespaces: forbidden, none left of those allowed, or not in this kernel.
func refused(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL)
}

func runInside(name string, cloneFlags uintptr, output io.Writer, args ...string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), insideVariable+"="+name, "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin") // which other users than root may lack
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: cloneFlags,
		// Unshared, not cloned: then the os package also makes all mounts private, and none made inside appears outside.
		Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
	}
	if cloneFlags != 0 {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	cmd.Stdout, cmd.Stderr = output, output
	if err := spawn(cmd); err != nil {
		return fmt.Errorf("start a process in its own network: %w", err)
	}
	return cmd.Wait()
}

// only gives the arguments with which the second process runs this test or subtest alone. It ends a little before the first, so that its output
// shows where it hung.
func only(t *testing.T) []string {
	parts := strings.Split(t.Name(), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	timeout := time.Duration(0)
	if deadline, ok := t.Deadline(); ok {
		timeout = max(time.Second, time.Until(deadline)-5*time.Second)
	}
	return []string{"-test.run=" + strings.Join(parts, "/"), "-test.v", "-test.count=1", "-test.timeout=" + timeout.String()}
}

// makeNetwork gives the new network its addresses, and the routes without which nothing is sent to a ClusterIP at all. Everything
// is on loopback: not every kernel has dummy interfaces.
func makeNetwork(ctx context.Context) error {
	commands := []string{"link set lo up", "address add " + NodeIP + "/24 dev lo"}
	for i := range 9 {
		commands = append(commands, fmt.Sprintf("-6 address add fd00:99::%d/128 dev lo nodad", i+1))
	}
	commands = append(commands, "route add default dev lo src "+NodeIP, "-6 route add default dev lo src "+NodeIPv6)
	return IP(ctx, commands...)
}

// insideNetNS says whether this process has a network of its own.
func insideNetNS() bool { return os.Getenv(insideVariable) != "" }
