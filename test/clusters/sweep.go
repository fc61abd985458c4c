package clusters

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// killAll ends every process of the cluster, and returns once they are gone. There is no gentle end: all data goes with them.
func (c *Cluster) killAll() error {
	self := os.Getpid()
	return within(time.Minute, func() error {
		// Again and again: what started another process after it was looked for is itself dead by then.
		pids := c.processes()
		for _, pid := range pids {
			if pid == self {
				return fmt.Errorf("process %d is in the cluster's network: a cluster cannot be stopped from inside", pid)
			}
			_ = syscall.Kill(pid, syscall.SIGKILL) // fails where it has just ended
		}
		if len(pids) > 0 {
			return fmt.Errorf("the processes %v do not end", pids)
		}
		return nil
	})
}

// processes are those in the cluster's network namespace (all that Start started, also containerd's shims, and pods in the node's network), and
// those in its containers' cgroups.
func (c *Cluster) processes() (pids []int) {
	network, _ := os.Stat(netnsFile(c.netns()))
	cgroups := c.cgroups()
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range all {
		pid, err := strconv.Atoi(filepath.Base(process))
		if err == nil && alive(pid) && (inNetwork(process, network) || inCgroup(process, cgroups)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// alive is false for a process that has ended, waited for or not.
func alive(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && !bytes.Contains(status, []byte("\nState:\tZ")) && !bytes.Contains(status, []byte("\nState:\tX"))
}

func inNetwork(process string, network fs.FileInfo) bool {
	own, err := os.Stat(filepath.Join(process, "ns", "net"))
	return err == nil && network != nil && os.SameFile(own, network)
}

func inCgroup(process string, cgroups []string) bool {
	text, err := os.ReadFile(filepath.Join(process, "cgroup"))
	return err == nil && slices.ContainsFunc(cgroups, func(g string) bool { return bytes.Contains(text, []byte(g)) })
}

// cgroupsParent is containerd's for all containers of Kubernetes, as the kubelet gives none with cgroupsPerQOS false.
const cgroupsParent = "/k8s.io"

// cgroups are the containers' paths in each hierarchy. Containers share their parent with those of other clusters: which are whose
// is known from the folders that containerd keeps for them.
func (c *Cluster) cgroups() []string {
	bundles, _ := filepath.Glob(c.path("containerd", "state", "io.containerd.runtime.v2.task", containerdNamespace, "*"))
	var all []string
	for _, bundle := range bundles {
		all = append(all, cgroupsParent+"/"+filepath.Base(bundle))
	}
	return all
}

// removeCgroups removes the folders of cgroups, of whose processes none is left. In version 2 there is one for a container, in
// version 1 one for each controller.
func (c *Cluster) removeCgroups() error {
	var errs []error
	for _, cgroup := range c.cgroups() {
		for _, folder := range cgroupFolders(cgroup) {
			errs = append(errs, removeCgroup(folder))
		}
	}
	return errors.Join(errs...)
}

func cgroupFolders(cgroup string) []string {
	unified, _ := filepath.Glob("/sys/fs/cgroup" + cgroup)
	controllers, _ := filepath.Glob("/sys/fs/cgroup/*" + cgroup)
	return append(unified, controllers...)
}

// removeCgroup begins with the deepest: a container may have made cgroups of its own. The kernel lets go of a cgroup only some
// time after its last process.
func removeCgroup(top string) error {
	var folders []string
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Reverse(folders)
	return within(10*time.Second, func() error {
		for _, folder := range folders {
			if err := syscall.Rmdir(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove cgroup %s: %w", folder, err)
			}
		}
		return nil
	})
}
