package system

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// Claims are the readable parts of the token of a service account.
type Claims struct {
	Issuer  string `json:"iss"`
	Subject string `json:"sub"`
	Issued  int64  `json:"iat"` // seconds since 1970, or 0
	Expires int64  `json:"exp"` // seconds since 1970, or 0 if it does not expire
}

// ReadClaims reads the claims of a token without any check of its signature. It returns false if the
// token is no JSON Web Token.
func ReadClaims(token string) (Claims, bool) {
	var c Claims
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	return c, err == nil && json.Unmarshal(text, &c) == nil
}

// moment turns a claim into a time, or the zero time.
func moment(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}
