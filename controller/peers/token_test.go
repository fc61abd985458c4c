package peers

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// forged returns a token with these claims, and a signature that is none.
func forged(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte("none"))
}

// tokenOf returns a token of the account s/a with times in seconds since 1970.
func tokenOf(issued, expires int64) string {
	return forged(fmt.Sprintf(`{"iat":%d,"exp":%d,"sub":"system:serviceaccount:s:a"}`, issued, expires))
}

func TestClaims(t *testing.T) {
	const account = `"sub":"system:serviceaccount:s:a"`
	for name, c := range map[string]struct {
		token string
		fault string // "" if the token can be renewed
	}{
		"good":                  {tokenOf(1000, 4600), ""},
		"fractions of a second": {forged(`{"iat":1000.5,"exp":1e9,` + account + `}`), ""},
		"more claims":           {forged(`{"iat":1000,"exp":4600,"aud":["a"],"kubernetes.io":{"namespace":"x"},` + account + `}`), ""},
		"none":                  {"", "no token"},
		"no JWT":                {"abc", "not a JWT"},
		"no JSON":               {forged("abc"), "not a JWT"},
		"two parts":             {"e30.e30", "not a JWT"},
		"many parts":            {strings.Repeat("e30.", 1000), "not a JWT"},
		"huge":                  {tokenOf(1, 2) + strings.Repeat("a", maxToken), "limit"},
		"no exp":                {forged(`{"iat":1000,` + account + `}`), "never expires"},
		"no iat":                {forged(`{"exp":1000,` + account + `}`), "time of issue"},
		"a life of nothing":     {tokenOf(1000, 1000), "time of issue"},
		"a text as time":        {forged(`{"iat":1000,"exp":"soon",` + account + `}`), "not a JWT"},
		"a time before 1970":    {tokenOf(-1e12, 1000), "out of range"},
		"a time after 9999":     {forged(`{"iat":1000,"exp":1e300,` + account + `}`), "out of range"},
		"another user":          {forged(`{"iat":1000,"exp":4600,"sub":"alice"}`), "not one of a ServiceAccount"},
		"a path as account":     {forged(`{"iat":1000,"exp":4600,"sub":"system:serviceaccount:s:../x"}`), "not one of a ServiceAccount"},
	} {
		t.Run(name, func(t *testing.T) {
			c2, err := readClaims(c.token)
			if err == nil {
				err = c2.renewable()
			}
			if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%+v: %v, want %q", c2, err, c.fault)
			}
			if err == nil && (c2.namespace != "s" || c2.account != "a") {
				t.Errorf("the account is %s/%s", c2.namespace, c2.account)
			}
		})
	}
}

func TestSuccession(t *testing.T) {
	of := func(token string) claims {
		c, err := readClaims(token)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	old := of(tokenOf(1000, 1600))
	for name, c := range map[string]struct {
		token string
		fault string
	}{
		"a later one":       {tokenOf(1400, 2000), ""},
		"the same":          {tokenOf(1000, 1600), "later"},
		"one without end":   {forged(`{"iat":1000,"sub":"system:serviceaccount:s:a"}`), "never expires"},
		"another account":   {forged(`{"iat":1400,"exp":2000,"sub":"system:serviceaccount:s:b"}`), "another account"},
		"another namespace": {forged(`{"iat":1400,"exp":2000,"sub":"system:serviceaccount:kube-system:a"}`), "another account"},
	} {
		if err := of(c.token).succeeds(old); (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", name, err, c.fault)
		}
	}
	for life, want := range map[int64]int64{60: 600, 600: 600, 86400: 86400, 1 << 34: 1 << 32} {
		if got := of(tokenOf(1000, 1000+life)).renewedLife(); got != want {
			t.Errorf("after a life of %d s, %d s are requested, want %d", life, got, want)
		}
	}
}

// Of the token in a kubeconfig and the one beside it, that counts which was issued later: a person can replace either.
func TestTheNewerTokenCounts(t *testing.T) {
	early, late := tokenOf(1000, 1600), tokenOf(1400, 2000)
	for name, c := range map[string]struct{ inside, beside, want string }{
		"only inside":    {early, "", early},
		"only beside":    {"", early, early},
		"renewed":        {early, late, late},
		"a newer inside": {late, early, late},
		"no JWT inside":  {"static", early, early},
		"no JWT beside":  {late, "static", "static"},
		"none":           {"", "", ""},
	} {
		to, err := readTarget(kubeconfig(t, &rest.Config{Host: "https://east.example:6443", BearerToken: c.inside}), c.beside)
		if err != nil || to.token != c.want {
			t.Errorf("%s: %q, %v; want %q", name, to.token, err, c.want)
		}
	}
}

// The controller of a peer is looked for in the namespace of the context, or beside the account.
func TestNamespaceOfATarget(t *testing.T) {
	config := &rest.Config{Host: "https://east.example:6443", BearerToken: tokenOf(1000, 1600)}
	named := &cluster{t: t, namespace: "mcs"}
	for want, text := range map[string][]byte{
		"s": kubeconfig(t, config), "mcs": named.in(kubeconfig(t, config)), "": kubeconfig(t, &rest.Config{Host: config.Host, BearerToken: "static"}),
	} {
		if to, err := readTarget(text, ""); err != nil || to.namespace != want {
			t.Errorf("%q, %v; want %q", to.namespace, err, want)
		}
	}
}

func TestSwappedTokens(t *testing.T) {
	of := func(host, token string) target {
		to, err := readTarget(kubeconfig(t, &rest.Config{Host: host, BearerToken: token}), "")
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	const host = "https://east.example"
	old := of(host, tokenOf(1000, 1600))
	for name, c := range map[string]struct {
		is   target
		only bool
	}{
		"a later token":      {of(host, tokenOf(1400, 2000)), true},
		"an expired token":   {of(host, tokenOf(800, 1100)), false},
		"another account":    {of(host, forged(`{"exp":2000,"sub":"system:serviceaccount:s:b"}`)), false},
		"garbage":            {of(host, "garbage"), false},
		"no token":           {of(host, ""), false},
		"another server too": {of("https://west.example", tokenOf(1400, 2000)), false},
	} {
		if only := c.is.swapped(old, time.Unix(1200, 0)); only != c.only {
			t.Errorf("%s: %v", name, only)
		}
	}
}

// A renewal begins at two thirds of the life of a token. Failures are repeated ever later, and the
// attempts end with the life.
func TestScheduleOfRenewals(t *testing.T) {
	at := func(seconds float64) time.Time { return time.Unix(0, int64(seconds*1e9)) }
	var r renewal
	r.see(tokenOf(1000, 1600))
	if pause, ok := r.pause(at(1100)); !ok || pause != 300*time.Second {
		t.Errorf("%v before the first attempt: %v", pause, ok)
	}
	r.next = at(9000)
	if pause, ok := r.pause(at(1100)); !ok || pause != 300*time.Second {
		t.Errorf("%v before the first attempt after the clock was set back: %v", pause, ok)
	}
	now := at(1500)
	if pause, ok := r.pause(now); !ok || pause != 0 {
		t.Errorf("the first attempt is in %v: %v", pause, ok)
	}
	r.running = true
	if _, ok := r.pause(now); ok {
		t.Error("a second attempt runs beside the first")
	}
	var last time.Duration
	attempts := 0
	for !r.claims.expired(now) {
		r.attempted(r.token, errors.New("no"), now)
		pause, ok := r.pause(now)
		if !ok || pause < retryAfter || pause > longestRetry || attempts < 5 && pause < last*3/4 {
			t.Fatalf("after %d attempts: %v, %v; the last pause was %v", attempts, pause, ok, last)
		}
		now, last = now.Add(pause), pause
		attempts++
	}
	if attempts < 8 || attempts > 20 || r.trouble != "no" {
		t.Errorf("%d attempts in 100 s; %q", attempts, r.trouble)
	}
	if _, ok := r.pause(now); ok {
		t.Error("an expired token is renewed")
	}
	r.see(tokenOf(1600, 2200)) // by somebody else
	r.next = time.Time{}
	if pause, ok := r.pause(now); !ok || pause < 390*time.Second || r.trouble != "" {
		t.Errorf("a new token is renewed in %v, %v; %q", pause, ok, r.trouble)
	}
	for n := range conflictsOften {
		if r.trouble != "" {
			t.Errorf("%d conflicts are reported: %s", n, r.trouble)
		}
		r.attempted(r.token, apierrors.NewConflict(schema.GroupResource{}, "east", nil), now)
	}
	if r.trouble == "" {
		t.Error("no conflict is ever reported")
	}
}

// Another writer that restores an older token is reported after some times, and there is at most one
// write in a minute.
func TestRestoredTokens(t *testing.T) {
	old := tokenOf(1000, 2200)
	now := time.Unix(1800, 0)
	var r renewal
	r.see(old)
	for n := range restoredOften {
		if pause, ok := r.pause(now); !ok || pause > 0 {
			t.Fatalf("round %d: an attempt follows in %v: %v", n, pause, ok)
		}
		if m := r.message(true, "rotate", now); m != "" {
			t.Errorf("round %d: %s", n, m)
		}
		r.attempted(old, nil, now)
		r.see(tokenOf(now.Unix(), now.Unix()+1200))
		r.see(old)
		if pause, ok := r.pause(now); !ok || pause != rewriteAfter {
			t.Errorf("round %d: the next write follows in %v: %v", n, pause, ok)
		}
		now = now.Add(rewriteAfter)
	}
	if m := r.message(true, "rotate", now); !strings.Contains(m, "another writer") {
		t.Errorf("the message is %q", m)
	}
	if m := r.message(true, "rotate", time.Unix(2200, 0)); !strings.Contains(m, "expired at 1970-01-01T00:36:40Z") || !strings.Contains(m, "another writer") {
		t.Errorf("after the expiry, the message is %q", m)
	}
	r.see(tokenOf(2200, 3400))
	r.attempted(r.token, nil, now)
	if m := r.message(true, "rotate", now); m != "" {
		t.Errorf("after a renewal without another writer, the message is %q", m)
	}
}
