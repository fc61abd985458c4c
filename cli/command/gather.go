package command

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterset-dns/multicluster/cli/gather"
	"github.com/clusterset-dns/multicluster/cli/output"
)

func newGather(e *env) *cobra.Command {
	var names []string
	o := gather.Options{Version: version, Now: time.Now, Progress: e.step}
	c := &cobra.Command{
		Use:   "gather",
		Short: "Write an archive for a bug report, without credentials",
		Long: `Writes a .tar.gz with the state of the clusters: the objects of the project, exports and imports, the
Corefiles, logs, events, and the result of check. summary.md in it begins with what is wrong.

Values of Secrets, private keys, tokens and plain values of environment variables are replaced. Names of
namespaces and Services, and addresses, stay: look at the archive before you send it.`,
		Example: "  kubectl multicluster gather\n  kubectl multicluster gather --contexts member1,member2 -f report.tar.gz",
		Args:    arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := e.selected(c.Context(), names)
			if err != nil {
				return err
			}
			if o.File == "" {
				o.File = freeName("multicluster-gather-"+time.Now().UTC().Format("20060102-150405"), ".tar.gz")
			}
			r, err := gather.Run(c.Context(), all, o)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(e.Out, "%s: %s, %d KiB. Not read: %d, left out: %d. Read summary.md in it before you send it.\n",
				output.Clean(r.File), output.Count(r.Files, "file"), (r.Bytes+1023)>>10, len(r.Errors), len(r.Withheld))
			return err
		},
	}
	c.Flags().StringVarP(&o.File, "file", "f", "", "the archive; default: multicluster-gather-<time>.tar.gz")
	c.Flags().BoolVar(&o.Force, "force", false, "overwrite the file")
	e.contextsFlag(c, &names)
	return c
}

// freeName returns a name that no file has yet: with a number if there was a run in the same second.
func freeName(stem, ending string) string {
	name := stem + ending
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); err != nil {
			return name
		}
		name = fmt.Sprintf("%s-%d%s", stem, n, ending)
	}
}
