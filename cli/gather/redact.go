package gather

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const redacted = "<redacted>"

const (
	// secretName is the end of the name of something that is secret: DB_PASSWORD, --db-pass, clientSecret.
	secretName = `(?:token|passw(?:or)?d|passphrase|client-key-data|client-certificate-data|(?:[_-]|client)secret|(?:\b|[_-])(?:pass|pwd)|(?:api|secret|access|private|account|encryption)[_-]?key(?:[_-]?id)?|credentials?)` //nolint:gosec // names only
	// plainValue is a value that is no object, list or boolean of JSON.
	plainValue = `(?:'[^'\n]*'|[^\s"'\\,<>{}\[\]][^\s"\\,<>]*)`
)

// secretFlag is a flag whose value is the next argument.
var secretFlag = regexp.MustCompile(`(?i)^--?[\w.-]*` + secretName + `$`)

// patterns are credentials that can be recognized without knowing them.
var patterns = []struct {
	find    *regexp.Regexp
	replace string
}{
	// Also as a string of JSON, in which a line break is two characters.
	{regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----`), redacted},
	// The same in base64, as kubeconfigs have it.
	{regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/]{0,30}(?:QUklWQVRFIEtFWS|BSSVZBVEUgS0VZ|UFJJVkFURSBLRV)[A-Za-z0-9+/=]*`), redacted},
	{regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`), redacted},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/-]{12,}=*`), "$1 " + redacted},
	{regexp.MustCompile(`(://)[^/\s:@"]+:[^/\s@"]+@`), "${1}" + redacted + "@"},
	{regexp.MustCompile(`\b(?:gh[a-z]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|A[KS]IA[0-9A-Z]{16})`), redacted},
	{regexp.MustCompile(`(?i)\b(authorization\\?"?\s*[:=]\s*\\?["']?)(?:[a-z]+ +)?` + plainValue), "${1}" + redacted},
	// Fields of kubeconfigs, environment variables, and flags.
	{regexp.MustCompile(`(?i)(` + secretName + `\\?"?\s*[:=]\s*\\?"?)` + plainValue), "${1}" + redacted},
	{regexp.MustCompile(`(?i)(--?` + secretName + ` +)` + plainValue), "${1}" + redacted},
	// Options of plugins of CoreDNS, such as route53, etcd and azure.
	{regexp.MustCompile(`(?im)^([ \t]*(?:aws_access_key|credentials|secret|password|client_secret|access_key)[ \t]+).+$`), "${1}" + redacted},
}

// scrub replaces what looks like a credential.
func scrub(text []byte) []byte {
	for _, p := range patterns {
		text = p.find.ReplaceAll(text, []byte(p.replace))
	}
	return text
}

// knownVariables are environment variables whose values help and are no secrets.
var knownVariables = []string{
	"POD_NAME", "POD_NAMESPACE", "NODE_NAME", "CLUSTER_ID", "GOMEMLIMIT", "MEMORY_LIMIT_MIB", "GOGC", "GOMAXPROCS",
	"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT",
}

// lastApplied contains a copy of the object, with everything that is redacted in it.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// redact removes from an object what can contain credentials.
func redact(object map[string]any) {
	if meta, ok := object["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
		if annotations, ok := meta["annotations"].(map[string]any); ok {
			delete(annotations, lastApplied)
		}
	}
	walk(object)
}

// walk scrubs all strings, and removes the plain values of environment variables.
func walk(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if text, ok := inner.(string); ok {
				v[key] = string(scrub([]byte(text)))
				continue
			}
			if key == "env" {
				redactVariables(inner)
			}
			if meta, ok := inner.(map[string]any); ok && key == "metadata" {
				delete(meta, "managedFields")
			}
			walk(inner)
		}
	case []any:
		for i, inner := range v {
			text, ok := inner.(string)
			if !ok {
				walk(inner)
				continue
			}
			v[i] = string(scrub([]byte(text)))
			if i > 0 && !strings.HasPrefix(text, "-") {
				if flag, ok := v[i-1].(string); ok && secretFlag.MatchString(flag) {
					v[i] = redacted
				}
			}
		}
	}
}

func redactVariables(value any) {
	all, ok := value.([]any)
	if !ok {
		return
	}
	for _, one := range all {
		variable, ok := one.(map[string]any)
		if !ok {
			continue
		}
		name, _ := variable["name"].(string)
		if _, plain := variable["value"]; plain && !slices.Contains(knownVariables, name) {
			variable["value"] = redacted
		}
	}
}

// minSecret is the length of the shortest value that is searched for, in bytes: a shorter one is in
// every text.
const minSecret = 8

// secrets are values that must not be in the archive.
type secrets struct {
	mu sync.Mutex
	// plain are the values, as they are and as strings of JSON. They can be replaced.
	plain [][]byte
	// encoded are parts of the base64 of the values, which can begin at any place of a longer text.
	encoded [][]byte
}

// learn adds a value.
func (s *secrets) learn(value []byte) {
	value = bytes.TrimSpace(value)
	if len(value) < minSecret {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.plain, func(known []byte) bool { return bytes.Equal(known, value) }) {
		return
	}
	s.plain = append(s.plain, bytes.Clone(value))
	if quoted := quote(string(value)); !bytes.Equal(quoted, value) {
		s.plain = append(s.plain, quoted)
	}
	for _, of := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		s.plain = append(s.plain, []byte(of.EncodeToString(value)))
		for shift := range 3 {
			s.encoded = append(s.encoded, inner(of, value, shift))
		}
	}
	// The longest first: a shorter value can be a part of it.
	slices.SortFunc(s.plain, func(a, b []byte) int { return len(b) - len(a) })
}

// inner is the part of the base64 of a longer text that depends on the value only, where the value
// begins at this place of a group of three bytes.
func inner(of *base64.Encoding, value []byte, shift int) []byte {
	skip := (3 - shift) % 3
	whole := (len(value) - skip) / 3 * 3
	return []byte(of.EncodeToString(value[skip : skip+whole]))
}

// quote returns a value as a string of JSON, without the quotation marks.
func quote(value string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // A string can be encoded.
	return []byte(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(b.String()), `"`), `"`))
}

func (s *secrets) replace(text []byte) []byte {
	for _, value := range s.plain {
		text = bytes.ReplaceAll(text, value, []byte(redacted))
	}
	return text
}

// in reports whether a text contains a value, also in base64.
func (s *secrets) in(text []byte) bool {
	contains := func(value []byte) bool { return bytes.Contains(text, value) }
	return slices.ContainsFunc(s.plain, contains) || slices.ContainsFunc(s.encoded, contains)
}
