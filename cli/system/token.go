package system

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
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

// TokenOf returns the token of a peer's Secret that the controller uses, or "": of one under its own key and one in the
// kubeconfig, that which was issued later, otherwise the first.
func TokenOf(s *corev1.Secret) string {
	token, inside := string(bytes.TrimSpace(s.Data[TokenKey])), ""
	if config, err := clientcmd.Load(s.Data[KubeconfigKey]); err == nil && config.Contexts[config.CurrentContext] != nil {
		if user := config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo]; user != nil {
			inside = user.Token
		}
	}
	of, isToken := ReadClaims(inside)
	than, alsoToken := ReadClaims(token)
	if token == "" || isToken && alsoToken && of.Issued > than.Issued {
		return inside
	}
	return token
}

// moment turns a claim into a time, or the zero time.
func moment(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}
