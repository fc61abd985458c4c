package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"golang.org/x/mod/modfile"

	"github.com/clusterset-dns/multicluster/build/images/archives"
)

const (
	source      = "https://github.com/clusterset-dns/multicluster"
	ours        = "github.com/clusterset-dns/multicluster"
	plugin      = "kubectl-multicluster"
	unknown     = "NOASSERTION"
	coreDNS     = "github.com/coredns/coredns"
	ourLicence  = "Apache-2.0"
	application = "APPLICATION"
)

// sboms writes the document of each program.
func (r *release) sboms(images map[string]archives.Archive) error {
	builds := map[string][]*debug.BuildInfo{}
	for _, program := range archives.Programs {
		for _, img := range images[program].Images {
			layers, err := img.Layers()
			if err != nil {
				return err
			}
			content, err := layers[0].Uncompressed()
			if err != nil {
				return err
			}
			info, err := infoOf(content, program)
			if err != nil {
				return fmt.Errorf("image of %s: %w", program, err)
			}
			builds[program] = append(builds[program], info)
		}
	}
	packed, err := filepath.Glob(filepath.Join(r.folder, plugin+"_*.tar.gz"))
	if err != nil {
		return err
	}
	for _, path := range packed {
		info, err := infoOfArchive(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		builds[plugin] = append(builds[plugin], info)
	}
	for program, infos := range builds {
		var text bytes.Buffer
		if err := json.Write(r.document(program, infos), &text, json.Indent("  ")); err != nil {
			return err
		}
		if err := r.write(program+".spdx.json", text.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// module is a Go module in a program. sum is the line of go.sum, "" for a folder.
type module struct{ path, version, sum string }

// modules are those of all builds of a program, which differ between systems, sorted. Modules of this repository have the version of the release:
// the programs are built from folders.
func (r *release) modules(infos []*debug.BuildInfo) []module {
	all := map[module]bool{}
	add := func(m module) {
		switch {
		case m.path == ours || strings.HasPrefix(m.path, ours+"/"):
			m.version = r.version
		case m.path == coreDNS && m.sum == "":
			m.version = r.coredns
		}
		all[m] = true
	}
	for _, info := range infos {
		add(module{path: "stdlib", version: info.GoVersion})
		add(module{info.Main.Path, info.Main.Version, info.Main.Sum})
		for _, dep := range info.Deps {
			if dep.Replace != nil && !modfile.IsDirectoryPath(dep.Replace.Path) {
				dep = dep.Replace
			}
			add(module{dep.Path, dep.Version, dep.Sum})
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b module) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.version, b.version))
	})
}

// document describes a program that contains modules.
func (r *release) document(program string, infos []*debug.BuildInfo) *v2_3.Document {
	root := newPackage("program", program, r.version)
	root.PackageDownloadLocation = source + "/releases/tag/" + r.version
	root.PackageLicenseDeclared = ourLicence
	root.PrimaryPackagePurpose = application
	d := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      program + " " + r.version,
		DocumentNamespace: source + "/releases/download/" + r.version + "/" + program + ".spdx.json",
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "multicluster-make-release-" + r.version}},
			Created:  r.created.Format(time.RFC3339),
		},
		Packages:      []*v2_3.Package{root},
		Relationships: []*v2_3.Relationship{relation("DOCUMENT", common.TypeRelationshipDescribe, root.PackageSPDXIdentifier)},
	}
	for _, m := range r.modules(infos) {
		p := newPackage("module-"+m.path+"-"+m.version, m.path, m.version)
		p.PackageExternalReferences = []*v2_3.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: packageURL(m),
		}}
		if m.sum != "" {
			p.PackageSourceInfo = "go.sum: " + m.sum
		}
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, relation(root.PackageSPDXIdentifier, common.TypeRelationshipContains, p.PackageSPDXIdentifier))
	}
	return d
}

// notID is what an identifier of SPDX cannot have.
var notID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func newPackage(id, name, version string) *v2_3.Package {
	return &v2_3.Package{
		PackageSPDXIdentifier: common.ElementID(notID.ReplaceAllString(id, "-")),
		PackageName:           name, PackageVersion: version,
		PackageDownloadLocation: unknown, PackageLicenseConcluded: unknown, PackageLicenseDeclared: unknown, PackageCopyrightText: unknown,
		IsFilesAnalyzedTagPresent: true,
	}
}

func relation(a common.ElementID, kind string, b common.ElementID) *v2_3.Relationship {
	return &v2_3.Relationship{RefA: common.DocElementID{ElementRefID: a}, Relationship: kind, RefB: common.DocElementID{ElementRefID: b}}
}

// packageURL is how scanners find a module. The version of the standard library has no prefix there.
func packageURL(m module) string {
	version := m.version
	if m.path == "stdlib" {
		version = strings.TrimPrefix(version, "go")
	}
	return "pkg:golang/" + m.path + "@" + url.QueryEscape(version)
}

// read reads what the linker wrote into a program.
func read(program []byte) (*debug.BuildInfo, error) { return buildinfo.Read(bytes.NewReader(program)) }
