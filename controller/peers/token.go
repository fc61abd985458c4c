package peers

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

const (
	// maxToken limits a token, in bytes. A token of a ServiceAccount has about 1 kB.
	maxToken = 16 << 10
	// minLife and maxLife are the limits of an API server for the life of a new token.
	minLife, maxLife = 10 * time.Minute, 1 << 32 * time.Second
	// maxFound is how often a kubeconfig can contain one token.
	maxFound = 16
)

// claims are the claims of a token that its renewal needs. They are not verified: the API server
// that the token is for does that with each request.
type claims struct {
	issued, expires    time.Time // zero if absent
	namespace, account string    // of a ServiceAccount; "" for another subject
}

// readClaims returns the claims of a token, or an error if it is no JWT.
func readClaims(token string) (claims, error) {
	if len(token) > maxToken {
		return claims{}, fmt.Errorf("the token has %d bytes, and the limit is %d", len(token), maxToken)
	}
	if token == "" {
		return claims{}, errors.New("the kubeconfig has no token")
	}
	var read jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &read); err != nil {
		return claims{}, errors.New("the token is not a JWT") // the error of the parser can contain parts of the token
	}
	var c claims
	for _, date := range []struct {
		from *jwt.NumericDate
		to   *time.Time
	}{{read.IssuedAt, &c.issued}, {read.ExpiresAt, &c.expires}} {
		if date.from == nil {
			continue
		}
		if year := date.from.UTC().Year(); year < 1970 || year > 9999 { // RFC 3339 has four digits
			return claims{}, errors.New("the token has a time that is out of range")
		}
		*date.to = date.from.UTC()
	}
	c.namespace, c.account = serviceAccount(read.Subject)
	return c, nil
}

// serviceAccount returns the namespace and the name of a ServiceAccount, or "" for another user.
func serviceAccount(user string) (namespace, name string) {
	rest, found := strings.CutPrefix(user, "system:serviceaccount:")
	namespace, name, _ = strings.Cut(rest, ":")
	if !found || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", ""
	}
	return namespace, name
}

// renewable returns an error if a token with these claims cannot be renewed at any time.
func (c claims) renewable() error {
	switch {
	case c.expires.IsZero():
		return errors.New("the token never expires")
	case c.issued.IsZero() || !c.issued.Before(c.expires):
		return errors.New("the token has no time of issue before its expiry")
	case c.account == "":
		return errors.New("the token is not one of a ServiceAccount")
	}
	return nil
}

func (c claims) life() time.Duration { return c.expires.Sub(c.issued) }

// due returns when a token is renewed: a third of its life is left for failures. Both times are from
// the clock of the peer.
func (c claims) due() time.Time { return c.issued.Add(c.life() / 3 * 2) }

// expired reports whether a token expires, and has done so.
func (c claims) expired(now time.Time) bool { return !c.expires.IsZero() && !now.Before(c.expires) }

// renewedLife returns the life to request for the next token, in seconds.
func (c claims) renewedLife() int64 {
	return int64(min(max(c.life(), minLife), maxLife) / time.Second)
}

// succeeds returns an error if a token cannot take the place of the token with the claims old.
func (c claims) succeeds(old claims) error {
	switch {
	case c.renewable() != nil:
		return c.renewable()
	case c.namespace != old.namespace || c.account != old.account:
		return errors.New("the token is one of another account")
	case !c.expires.After(old.expires):
		return errors.New("the token does not expire later than the old one")
	}
	return nil
}

// parsed is a kubeconfig with the user of its current context.
type parsed struct {
	*api.Config
	user *api.AuthInfo
}

func parse(kubeconfig []byte) (parsed, error) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return parsed{}, err
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil || config.AuthInfos[context.AuthInfo] == nil {
		return parsed{}, errors.New("the kubeconfig has no user")
	}
	return parsed{config, config.AuthInfos[context.AuthInfo]}, nil
}

// replaceToken returns the kubeconfig with another token of the user of its current context. All other
// bytes stay, such as comments, unknown fields and other users with the same token.
func replaceToken(kubeconfig []byte, token string) ([]byte, error) {
	want, err := parse(kubeconfig)
	if err != nil || want.user.Token == "" {
		return nil, errors.New("the kubeconfig has no token")
	}
	old := []byte(want.user.Token)
	want.user.Token = token
	for from, n := 0, 0; n < maxFound; n++ {
		at := bytes.Index(kubeconfig[from:], old)
		if at < 0 {
			break
		}
		at += from
		candidate := bytes.Join([][]byte{kubeconfig[:at], []byte(token), kubeconfig[at+len(old):]}, nil)
		// Only the parser knows which of the places is meant. It also finds a token that is no plain scalar.
		if got, err := clientcmd.Load(candidate); err == nil && reflect.DeepEqual(got, want.Config) {
			return candidate, nil
		}
		from = at + len(old)
	}
	return nil, errors.New("the kubeconfig does not contain the token in one piece, used by one user only")
}

// changedToken returns the token of a kubeconfig that differs from another one only in it, if both
// tokens are of the same ServiceAccount and the new one has not expired.
func changedToken(was, is []byte, now time.Time) (token string, only bool) {
	before, err := parse(was)
	if err != nil {
		return "", false
	}
	after, err := parse(is)
	if err != nil {
		return "", false
	}
	a, wrongA := readClaims(before.user.Token)
	b, wrongB := readClaims(after.user.Token)
	if wrongA != nil || wrongB != nil || a.account == "" || a.account != b.account || a.namespace != b.namespace || b.expired(now) {
		return "", false
	}
	token, after.user.Token = after.user.Token, before.user.Token
	return token, reflect.DeepEqual(before.Config, after.Config)
}
