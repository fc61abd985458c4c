package peers

// swapToken continues a connection with the kubeconfig, if no request has failed and only the token
// differs. A new connection would have to read everything again.
func (p *peer) swapToken(c *connection, kubeconfig []byte) bool {
	p.registry.mu.RLock()
	works := c.troubleLocked() == nil
	p.registry.mu.RUnlock()
	token, only := changedToken(p.kubeconfig, kubeconfig, p.registry.options.Now())
	if !works || !only {
		return false
	}
	p.kubeconfig = kubeconfig
	c.useToken(token)
	return true
}

// useToken sends all further requests with another token, and soon one for each resource: a token
// that the peer does not accept is noticed at once, not when the watches end.
func (c *connection) useToken(token string) {
	c.transport.token.Store(&token)
	select {
	case c.swapped <- struct{}{}:
	default: // all requests with the last token follow
	}
}
