package peers

import (
	"encoding/base64"
	"strings"
)

// redacted is an error without credentials in its text.
type redacted struct {
	error
	text string
}

func (r redacted) Error() string { return r.text }
func (r redacted) Unwrap() error { return r.error }

// redact removes a token, and the data of a Secret, from the text of an error, to which an admission
// webhook may have added them: more users can read Leases and events than Secrets.
func redact(err error, token string, data map[string][]byte) error {
	if err == nil {
		return nil
	}
	hidden := []string{token, base64.StdEncoding.EncodeToString([]byte(token))}
	for _, value := range data {
		hidden = append(hidden, string(value), base64.StdEncoding.EncodeToString(value))
	}
	text := err.Error()
	for _, secret := range hidden {
		text = strings.ReplaceAll(text, secret, "(redacted)")
	}
	return redacted{err, text}
}
