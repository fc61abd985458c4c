// Command listen binds a port on every thread, and prints the result.
package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"

	_ "github.com/clusterset-dns/multicluster/build/netbind"
)

const threads = 16

func main() {
	var started, done sync.WaitGroup
	started.Add(threads)
	errs := make([]error, threads)
	for i := range threads {
		done.Go(func() {
			runtime.LockOSThread()
			started.Done()
			started.Wait() // no thread serves two
			var listener net.Listener
			if listener, errs[i] = net.Listen("tcp", fmt.Sprintf("127.0.0.%d:%s", i+1, os.Args[1])); errs[i] == nil {
				errs[i] = listener.Close()
			}
		})
	}
	done.Wait()
	for _, err := range errs {
		if err != nil {
			_, _ = fmt.Fprintln(os.Stdout, err)
			os.Exit(1)
		}
	}
	_, _ = fmt.Fprintln(os.Stdout, "listened")
}
