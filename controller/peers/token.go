package peers

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// maxToken limits a token, in bytes. A token of a ServiceAccount has about 1 kB.
	maxToken = 16 << 10
	// minLife and maxLife are the limits of an API server for the life of a new token.
	minLife, maxLife = 10 * time.Minute, 1 << 32 * time.Second
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
		return claims{}, errors.New("there is no token")
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

// newer returns the token that was issued later. b wins if that is not known.
func newer(a, b string) string {
	of, wrong := readClaims(a)
	than, alsoWrong := readClaims(b)
	if b == "" || wrong == nil && alsoWrong == nil && of.issued.After(than.issued) {
		return a
	}
	return b
}
