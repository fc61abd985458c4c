package archives

import (
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Tag is the name of a program's image, in a registry such as registry.example.org/team.
func Tag(registry, program, tag string) (name.Tag, error) {
	if strings.Contains(registry, "://") {
		return name.Tag{}, fmt.Errorf("name the image %s: the registry %q is a URL, want such as registry.example.org/team", program, registry)
	}
	t, err := name.NewTag(registry+"/"+program+":"+tag, name.StrictValidation)
	if err != nil {
		return t, fmt.Errorf("name the image %s: %w", program, err)
	}
	return t, nil
}

// Reference is what names an image in the values of the chart.
type Reference struct {
	Repository, Digest string
}

// Values are the references of the images by the names of the programs.
type Values map[string]Reference

// ChartKeys are the names under which the chart has the programs.
var ChartKeys = map[string]string{"coredns": "dns", "multicluster-controller": "controller"}

// YAML are the values as a file for `helm install --values`. Its tags are empty: the chart refuses a tag beside a digest, such as one that is stored in a release.
func (v Values) YAML() []byte {
	var text strings.Builder
	for _, program := range Programs {
		_, _ = fmt.Fprintf(&text, "%s:\n  image:\n    repository: %q\n    tag: \"\"\n    digest: %q\n",
			ChartKeys[program], v[program].Repository, v[program].Digest)
	}
	return []byte(text.String())
}
