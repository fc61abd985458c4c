package gather

import (
	"encoding/json"
	"strings"
	"testing"
)

// Credentials of annotations, arguments and logs go, and what is none stays.
func TestScrub(t *testing.T) {
	for text, want := range map[string]string{
		`DB_PASSWORD=hunter2 next`:                          `DB_PASSWORD=<redacted> next`,
		`AWS_SECRET_ACCESS_KEY=hunter2`:                     `AWS_SECRET_ACCESS_KEY=<redacted>`,
		`AWS_ACCESS_KEY_ID=hunter2`:                         `AWS_ACCESS_KEY_ID=<redacted>`,
		`--db-pass=hunter2 --v=2`:                           `--db-pass=<redacted> --v=2`,
		`--db-password hunter2 --v=2`:                       `--db-password <redacted> --v=2`,
		`--password='hunter2 hunter2' x`:                    `--password=<redacted> x`,
		`Authorization: token hunter2`:                      `Authorization: <redacted>`,
		`curl -H 'Authorization: hunter2' x`:                `curl -H 'Authorization: <redacted> x`,
		`"authorization": "Digest hunter2"`:                 `"authorization": "<redacted>"`,
		`{\"authorization\": \"Digest hunter2\"}`:           `{\"authorization\": \"<redacted>\"}`,
		`see ghp_hunter2hunter2hunter2`:                     `see <redacted>`,
		`"clientSecret": "hunter2"`:                         `"clientSecret": "<redacted>"`,
		`--client-secret=hunter2`:                           `--client-secret=<redacted>`,
		`GITHUB_TOKEN: hunter2`:                             `GITHUB_TOKEN: <redacted>`,
		`pass=hunter2`:                                      `pass=<redacted>`,
		`"secret": {"secretName": "a"}`:                     `"secret": {"secretName": "a"}`,
		`{"secretKeyRef": {"key": "a", "name": "b"}}`:       `{"secretKeyRef": {"key": "a", "name": "b"}}`,
		`"serviceAccountToken": {"path": "token"}`:          `"serviceAccountToken": {"path": "token"}`,
		`read Secret multicluster-system/member1: no`:       `read Secret multicluster-system/member1: no`,
		`compass=north`:                                     `compass=north`,
		`the label app.kubernetes.io/name=multicluster-dns`: `the label app.kubernetes.io/name=multicluster-dns`,
	} {
		if got := string(scrub([]byte(text))); got != want {
			t.Errorf("%s\nbecomes\n%s\nwant\n%s", text, got, want)
		}
	}
}

// The value of a flag can be the next argument.
func TestRedactArguments(t *testing.T) {
	object := map[string]any{"args": []any{"--db-pass", "hunter2", "--token", "--v=2", "plain"}}
	redact(object)
	text, err := json.Marshal(object)
	if err != nil || strings.Contains(string(text), "hunter2") || !strings.Contains(string(text), `"--v=2","plain"`) {
		t.Errorf("%s, %v", text, err)
	}
}
