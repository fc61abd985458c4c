// Package rbac shows what somebody with rights in one namespace can and cannot do to others, in two joined clusters: real API
// servers with their RBAC, a controller in each with the rights that deploy/ ships, and the real CoreDNS. Tenants act with accounts of
// their own, bound to Kubernetes' own roles and to what a test adds; administrators only prepare the stage.
//
// docs/operations/security.md says the same in words, and names the test of each row; TestSecurityPageNamesItsTests compares the two.
package rbac
