package clusters

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// load writes a kubeconfig with contexts that are well, and some that are not.
func load(t *testing.T) *Contexts {
	t.Helper()
	config := api.NewConfig()
	config.Clusters["one"] = &api.Cluster{Server: "https://one.example.org", TLSServerName: "one"}
	config.Clusters["file"] = &api.Cluster{Server: "https://file.example.org", CertificateAuthority: "/no/such/file"}
	config.AuthInfos["user"] = &api.AuthInfo{Token: "t"}
	config.Contexts["one"] = &api.Context{Cluster: "one", AuthInfo: "user"}
	config.Contexts["file"] = &api.Context{Cluster: "file", AuthInfo: "user"}
	config.Contexts["gone"] = &api.Context{Cluster: "gone", AuthInfo: "user"}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig = &path
	all, err := Load(t.Context(), flags)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// One bad entry of a kubeconfig costs no other context.
func TestSelectKeepsWhatIsWell(t *testing.T) {
	found, err := load(t).Select(nil)
	if len(found) != 1 || found[0].Context != "one" {
		t.Errorf("found %v", found)
	}
	if err == nil || !strings.Contains(err.Error(), "gone") || !strings.Contains(err.Error(), "file") {
		t.Errorf("the error is %v", err)
	}
}

func TestUnknownContext(t *testing.T) {
	_, err := load(t).Cluster("ona")
	if !errors.Is(err, ErrUnknownContext) || !strings.Contains(err.Error(), "file, gone, one") {
		t.Errorf("the error is %v", err)
	}
}

func TestServer(t *testing.T) {
	all := load(t)
	if found, err := all.Server("one"); err != nil || found.TLSServerName != "one" {
		t.Errorf("found %v, %v", found, err)
	}
	if _, err := all.Server("gone"); err == nil || !strings.Contains(err.Error(), `"gone"`) {
		t.Errorf("the error is %v", err)
	}
	if _, err := all.Server("file"); err == nil || !strings.Contains(err.Error(), "certificate authority of context file") {
		t.Errorf("the error is %v", err)
	}
}

func TestImpersonation(t *testing.T) {
	all := load(t)
	user, groups, uid := "jane", []string{"team"}, "7"
	all.flags.Impersonate, all.flags.ImpersonateGroup, all.flags.ImpersonateUID = &user, &groups, &uid
	found, err := all.Cluster("one")
	if err != nil {
		t.Fatal(err)
	}
	if got := found.Config.Impersonate; got.UserName != user || len(got.Groups) != 1 || got.Groups[0] != "team" || got.UID != uid {
		t.Errorf("the client impersonates %+v", got)
	}
}
