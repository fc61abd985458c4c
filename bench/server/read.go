package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/bench/server/table"
)

// onlyRead measures what the API server alone needs to send all imports: how long a client waits that only reads our watch. It is
// in the column of what is ready-made.
func (b *bench) onlyRead(ctx context.Context, w *world) error {
	client, err := rest.HTTPClientFor(w.Config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	begin := time.Now()
	if err := readImports(ctx, client, w.Config.Host); err != nil {
		return fmt.Errorf("read all imports: %w", err)
	}
	b.samples.Add(firstAnswer, b.manyImports(), table.ReadyMade, time.Since(begin).Seconds())
	return nil
}

// readImports reads a watch that begins with all imports, up to the last of these.
func readImports(ctx context.Context, client *http.Client, host string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel() // ends the watch
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, host+"/apis/multicluster.x-k8s.io/v1beta1/serviceimports"+
		"?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	events := bufio.NewReaderSize(answer.Body, 1<<16)
	for {
		event, err := events.ReadSlice('\n')
		switch {
		case err == nil && bytes.HasPrefix(event, []byte(`{"type":"ERROR"`)):
			return fmt.Errorf("the watch ended: %s", event)
		case err == nil && bytes.Contains(event, []byte(metav1.InitialEventsAnnotationKey)):
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
}
