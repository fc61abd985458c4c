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
	if os.Getenv(insideVariable) == t.Name() {
		if err := makeNetwork(t.Context()); err != nil {
			t.Fatalf("%v\n%s", err, adviceNamespaces)
		}
		body(t)
		return
	}
	if err := Needs("network"); err != nil { // before a cryptic message of theirs
		t.Fatal(err)
	}
	output, err := runAgain(t)
	t.Logf("in its own network:\n%s", output)
	switch {
	case refused(err):
		t.Fatalf("%v\n%s", err, adviceNamespaces)
	case err != nil:
		t.Fatal(err)
	case !strings.Contains(output, "--- PASS: "+t.Name()+" "): // also where nothing ran at all
		t.Fatal("the test did not pass in its own network")
	}
}

// inMain stands for the name of a test where the second process runs a whole package.
const inMain = "TestMain"

// MainInNetNS is TestMain's part for a package whose tests share one network, and one API server in it: main, such as Shared.Main,
// is called in a second process, as the body of InNetNS is.
func MainInNetNS(m *testing.M, main func(*testing.M) int) int {
	flag.Parse()
	var err error
	switch inside := os.Getenv(insideVariable); {
	case inside == inMain:
		if err = makeNetwork(context.Background()); err == nil { //nolint:forbidigo // TestMain has no other
			return main(m)
		}
	case inside != "" || testing.Short(): // a test of InNetNS, which makes a network of its own; or nothing needs one
		return main(m)
	default:
		if err = Needs("network"); err == nil {
			err = again(inMain, os.Stdout, os.Args[1:]...)
		}
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			return failed.ExitCode()
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s\n", err, adviceNamespaces)
		return 1
	}
	return 0
}

const adviceNamespaces = `This test needs user and network namespaces. Either run it as root, or allow them:
	sysctl -w user.max_user_namespaces=10000
	sysctl -w kernel.unprivileged_userns_clone=1               (older Debian)
	sysctl -w kernel.apparmor_restrict_unprivileged_userns=0   (Ubuntu 24.04 and later)`

// toolFolders complete the PATH of users who are not root.
var toolFolders = []string{"/usr/sbin", "/sbin"}

// runAgain runs the test in a second process, and returns its output.
func runAgain(t *testing.T) (string, error) {
	t.Helper()
	var output strings.Builder
	err := again(t.Name(), &output, "-test.run="+onlyTest(t.Name()), "-test.v", "-test.count=1", "-test.timeout="+timeLeft(t))
	return output.String(), err
}

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
	cmd.Env = append(os.Environ(), insideVariable+"="+name,
		"PATH="+strings.Join(append([]string{os.Getenv("PATH")}, toolFolders...), ":"))
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

// onlyTest is the pattern of -test.run that means one test, or one subtest.
func onlyTest(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// timeLeft ends the second process a little before the first, so that its output shows where it
// hung.
func timeLeft(t *testing.T) string {
	deadline, ok := t.Deadline()
	if !ok {
		return "0"
	}
	return max(time.Second, time.Until(deadline)-5*time.Second).String()
}

// makeNetwork gives the new network its addresses, and the routes without which nothing is sent to a ClusterIP at all. Everything
// is on loopback: not every kernel has dummy interfaces.
func makeNetwork(ctx context.Context) error {
	commands := []string{"link set lo up", "address add " + NodeIP + "/24 dev lo"}
	for i := range 9 {
		commands = append(commands, fmt.Sprintf("-6 address add fd00:99::%d/128 dev lo nodad", i+1))
	}
	commands = append(commands, "route add default dev lo src "+NodeIP, "-6 route add default dev lo src "+NodeIPv6)
	for _, command := range commands {
		cmd := exec.CommandContext(ctx, "ip", strings.Fields(command)...)
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", command, err, output)
		}
	}
	return nil
}

// insideNetNS says whether this process has a network of its own.
func insideNetNS() bool { return os.Getenv(insideVariable) != "" }
