package multicluster

import (
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/coredns/coredns/plugin"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"github.com/clusterset-dns/multicluster/plugin/watch"
)

var log = clog.NewWithPlugin(pluginName)

func opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: plugin.Namespace, Subsystem: pluginName, Name: name, Help: help}
}

func gauge(name, help string) prometheus.Gauge {
	return promauto.NewGauge(prometheus.GaugeOpts(opts(name, help)))
}

var (
	importsGauge   = gauge("imports", "Number of ServiceImports in memory.")
	endpointsGauge = gauge("endpoints", "Number of ready endpoint addresses of all EndpointSlices in memory.")
	watchesGauge   = gauge("watches", "Number of API server watches. Server blocks with the same options share one.")
	syncedGauge    = gauge("synced", "Number of API server watches that have synced since they started.")
	readyTimeouts  = promauto.NewCounter(prometheus.CounterOpts(opts("ready_timeouts_total",
		"Counter of server blocks that ready_timeout reported as ready before their watch had synced.")))
	invalidCount = promauto.NewCounterVec(prometheus.CounterOpts(opts("invalid_total",
		"Counter of problems of API objects. A problem is a part that cannot be served. At most nine count for each change of an object.")),
		[]string{"kind", "field"})
	programmingDuration = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: plugin.Namespace,
		Subsystem: pluginName,
		Name:      "dns_programming_duration_seconds",
		Help:      "Histogram of the time from an object's change to the first answer with it.",
		Buckets:   prometheus.ExponentialBuckets(0.001, 2, 20), // to 524 s, as in the kubernetes plugin
	}, []string{"kind"})
)

var (
	watchUp = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "watch_up"),
		"1 while the list and the watch of a resource work, otherwise 0. Of several watches, the worst.", []string{"resource"}, nil)
	watchContact = prometheus.NewDesc(prometheus.BuildFQName(plugin.Namespace, pluginName, "watch_last_contact_timestamp_seconds"),
		"When the API server last answered about a resource, in seconds since 1970, or 0 for never. An idle watch gets a bookmark each minute or two. Of several watches, the oldest.",
		[]string{"resource"}, nil)
)

func init() {
	prometheus.MustRegister(&live)
	promauto.NewGaugeVec(prometheus.GaugeOpts(opts("build_info", "1, with the version of the plugin and of Go.")),
		[]string{"version", "goversion"}).WithLabelValues(buildVersion(), runtime.Version()).Set(1)
}

// Describe implements prometheus.Collector.
func (l *liveWatches) Describe(all chan<- *prometheus.Desc) {
	all <- watchUp
	all <- watchContact
}

// Collect implements prometheus.Collector.
func (l *liveWatches) Collect(all chan<- prometheus.Metric) {
	for resource, h := range l.health() {
		up, at := 0.0, 0.0
		if h.Up {
			up = 1
		}
		if !h.Contact.IsZero() {
			at = float64(h.Contact.UnixMilli()) / 1000
		}
		all <- prometheus.MustNewConstMetric(watchUp, prometheus.GaugeValue, up, resource)
		all <- prometheus.MustNewConstMetric(watchContact, prometheus.GaugeValue, at, resource)
	}
}

// health returns the worst state of the running watches of each resource.
func (l *liveWatches) health() map[string]watch.Health {
	l.mu.Lock()
	defer l.mu.Unlock()
	worst := map[string]watch.Health{}
	for _, s := range l.running {
		for _, h := range s.Health() {
			if other, found := worst[h.Resource]; found {
				h = watch.Worse(h, other)
			}
			worst[h.Resource] = h
		}
	}
	return worst
}

// observer turns the events of one watch into log lines and metrics. The gauges are sums over all
// watches.
type observer struct {
	services, endpoints, synced int
}

func (o *observer) began() { watchesGauge.Inc() }

// ended subtracts what the watch had added.
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

// problemLines limits the log lines about objects, of all watches. Users with permission to write
// objects decide on the number of bad ones. One namespace can use a fifth of the lines, so that
// lines about other namespaces are not lost.
var problemLines = limitedLines{all: rate.NewLimiter(rate.Every(3*time.Second), 50), share: 5}

// maxNamespaces limits the number of remembered namespaces. Beyond it, the count restarts for all; the
// limit of all lines still holds.
const maxNamespaces = 1000

// limitedLines counts the lines that were left out.
type limitedLines struct {
	mu    sync.Mutex
	all   *rate.Limiter
	share int // one namespace can use 1/share of all lines
	of    map[string]*rate.Limiter
	left  int64
}

// allow returns whether one more line about a namespace's object can be logged, and how many were left out before it.
func (l *limitedLines) allow(namespace string) (leftOut int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.shareOf(namespace).Allow() || !l.all.Allow() {
		l.left++
		return 0, false
	}
	leftOut, l.left = l.left, 0
	return leftOut, true
}

func (l *limitedLines) shareOf(namespace string) *rate.Limiter {
	limiter, ok := l.of[namespace]
	if !ok {
		if l.of == nil || len(l.of) == maxNamespaces {
			l.of = map[string]*rate.Limiter{}
		}
		limiter = rate.NewLimiter(l.all.Limit()/rate.Limit(l.share), max(1, l.all.Burst()/l.share))
		l.of[namespace] = limiter
	}
	return limiter
}

// leaveOut counts a line that is not written.
func (l *limitedLines) leaveOut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left++
}

// Problems implements watch.Observer. All problems of an object go into one line.
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
		problemLines.leaveOut()
		return
	}
	namespace, _, _ := strings.Cut(object, "/")
	leftOut, ok := problemLines.allow(namespace)
	if !ok {
		return
	}
	log.Warningf("%s %s: %s; %s", kind, object, strings.Join(details, "; "), rest)
	if leftOut > 0 {
		log.Warningf("%d more lines about faulty objects were suppressed since the last one; see the metric coredns_multicluster_invalid_total", leftOut)
	}
}

// Failed implements watch.Observer.
func (o *observer) Failed(resource string, err error) {
	log.Warningf("Watching %s fails and is retried: %v. Until it works, answers come from what was read before, and are SERVFAIL if nothing was. CoreDNS needs a reachable API server, and an account that can list and watch %[1]s", resource, err)
}

// Recovered implements watch.Observer.
func (o *observer) Recovered(resource string) { log.Infof("Watching %s works again", resource) }

// Absent implements watch.Observer.
func (o *observer) Absent(resource string) {
	log.Infof("The API server does not serve %s. They are watched as soon as it does", resource)
}
