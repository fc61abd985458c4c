package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestHTTPAnswerNamesThePod(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() { _ = server{whoami: "web-0 c1"}.answerAt(listener) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listener.Addr().String()+"/any/path", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err != nil || string(text) != "web-0 c1\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestReadinessFollowsAFile(t *testing.T) {
	s := server{whoami: "web-0 c1", unready: filepath.Join(t.TempDir(), "unready")}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() { _ = s.answerAt(listener) }()
	get := func(path string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	if got := get("/ready"); got != http.StatusOK {
		t.Errorf("without the file: %d", got)
	}
	if err := os.WriteFile(s.unready, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if ready, other := get("/ready"), get("/"); ready != http.StatusServiceUnavailable || other != http.StatusOK {
		t.Errorf("with the file: %d, and %d at another path", ready, other)
	}
}

func TestUDPAnswerNamesThePod(t *testing.T) {
	connection, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	go func() { _ = server{whoami: "web-0 c1"}.echoAt(connection) }()
	client, err := net.Dial("udp", connection.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if err := client.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(client, "hello\n"); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 100)
	n, err := client.Read(answer)
	if err != nil || string(answer[:n]) != "web-0 c1 hello\n" {
		t.Errorf("%q, %v", answer[:n], err)
	}
}

func TestPortsAreAList(t *testing.T) {
	if got := ports("80,8080"); !slices.Equal(got, []string{"80", "8080"}) {
		t.Error(got)
	}
	if got := ports(""); len(got) != 0 {
		t.Error(got)
	}
}

func TestThePodsNameComesFromTheEnvironment(t *testing.T) {
	t.Setenv("POD_NAME", "web-1")
	t.Setenv("CLUSTER_ID", "c2")
	if got := whoami(); got != "web-1 c2" {
		t.Error(got)
	}
}
