package multicluster

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"github.com/clusterset-dns/multicluster/plugin/watch"
)

var log = clog.NewWithPlugin(pluginName)

func gauge(name, help string) prometheus.Gauge {
	return promauto.NewGauge(prometheus.GaugeOpts{Namespace: plugin.Namespace, Subsystem: pluginName, Name: name, Help: help})
}

var (
	importsGauge   = gauge("imports", "Number of ServiceImports that are held.")
	endpointsGauge = gauge("endpoints", "Number of ready endpoint addresses in the EndpointSlices that are held.")
	watchesGauge   = gauge("watches", "Number of API server watches: server blocks that watch alike share one.")
	syncedGauge    = gauge("synced", "Number of API server watches that have synced since they began.")
	readyTimeouts  = promauto.NewCounter(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "ready_timeouts_total",
		Help:      "Counter of server blocks that were reported ready by ready_timeout, before their watch had synced.",
	})
	programmingDuration = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "dns_programming_duration_seconds",
		Help:      "Histogram of the time from an object's change until it is answered.",
		Buckets:   prometheus.ExponentialBuckets(0.001, 2, 20), // to 524 s, as the kubernetes plugin has it
	}, []string{"kind"})
	invalidCount = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "invalid_total",
		Help:      "Counter of problems of API objects, which are the parts that cannot be served: at most nine of an object, when they become others.",
	}, []string{"kind", "field"})
)

// observer turns what one watch sees into log lines and metrics. The gauges are sums over all watches.
type observer struct {
	services, endpoints, synced int
}

func (o *observer) began() { watchesGauge.Inc() }

// ended takes back what the watch had added.
func (o *observer) ended() {
	watchesGauge.Dec()
	o.set(0, 0, 0)
}

func (o *observer) set(services, endpoints, synced int) {
	importsGauge.Add(float64(services - o.services))
	endpointsGauge.Add(float64(endpoints - o.endpoints))
	syncedGauge.Add(float64(synced - o.synced))
	*o = observer{services, endpoints, synced}
}

// Published implements watch.Observer.
func (o *observer) Published(services, endpoints int, whole bool) {
	synced := 0
	if whole {
		synced = 1
	}
	o.set(services, endpoints, synced)
}

// Programmed implements watch.Observer.
func (o *observer) Programmed(kind string, took time.Duration) {
	programmingDuration.WithLabelValues(kind).Observe(took.Seconds())
}

// problemLines limits the log lines about objects, of all watches. Who may write objects decides about their number.
var problemLines = limitedLines{limiter: rate.NewLimiter(rate.Every(3*time.Second), 50)}

// limitedLines counts the lines that were left out.
type limitedLines struct {
	limiter *rate.Limiter
	left    atomic.Int64
}

// allow says whether one more line may be logged, and how many were left out before it.
func (l *limitedLines) allow() (leftOut int64, ok bool) {
	if !l.limiter.Allow() {
		l.left.Add(1)
		return 0, false
	}
	return l.left.Swap(0), true
}

// Problems implements watch.Observer. All problems of an object are one line.
func (o *observer) Problems(kind, object string, all []watch.Problem, again bool) {
	rest, details := "the rest of it is served", make([]string, len(all))
	for i, p := range all {
		invalidCount.WithLabelValues(kind, p.Field).Inc()
		details[i] = p.Detail
		if p.Whole {
			rest = "nothing of it is served"
		}
	}
	if again {
		problemLines.left.Add(1)
		return
	}
	leftOut, ok := problemLines.allow()
	if !ok {
		return
	}
	log.Warningf("%s %s: %s; %s", kind, object, strings.Join(details, "; "), rest)
	if leftOut > 0 {
		log.Warningf("%d more lines about objects that cannot be served as a whole were left out since the last one; see the metric coredns_multicluster_invalid_total", leftOut)
	}
}

// Failed implements watch.Observer.
func (o *observer) Failed(resource string, err error) {
	log.Warningf("Watching %s fails and is tried again: %v. What was known is served on; names are SERVFAIL if nothing was known yet", resource, err)
}

// Recovered implements watch.Observer.
func (o *observer) Recovered(resource string) { log.Infof("Watching %s works again", resource) }

// Absent implements watch.Observer.
func (o *observer) Absent(resource string) {
	log.Infof("The API server does not have %s, so there are none for now; they are served as soon as it does", resource)
}
