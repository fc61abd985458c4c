package charts

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua" // the interpreter that Karmada runs such scripts with
	"sigs.k8s.io/yaml"
)

// retain runs the script of the customization as Karmada does: Retain(desiredObj, observedObj) gives the object to be written.
func retain(t *testing.T, desired, observed map[string]any) map[string]any {
	t.Helper()
	text, err := os.ReadFile("../karmada/serviceimport-retain.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var customization struct {
		Spec struct {
			Customizations struct {
				Retention struct{ LuaScript string }
			}
		}
	}
	if err := yaml.Unmarshal(text, &customization); err != nil {
		t.Fatal(err)
	}
	vm := lua.NewState()
	defer vm.Close()
	if err := vm.DoString(customization.Spec.Customizations.Retention.LuaScript); err != nil {
		t.Fatal(err)
	}
	call := lua.P{Fn: vm.GetGlobal("Retain"), NRet: 1, Protect: true}
	if err := vm.CallByParam(call, toLua(vm, desired), toLua(vm, observed)); err != nil {
		t.Fatal(err)
	}
	return fromLua(vm.Get(-1)).(map[string]any)
}

func toLua(vm *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case string:
		return lua.LString(v)
	case map[string]any:
		table := vm.NewTable()
		for key, field := range v {
			table.RawSetString(key, toLua(vm, field))
		}
		return table
	case []any:
		table := vm.NewTable()
		for _, item := range v {
			table.Append(toLua(vm, item))
		}
		return table
	}
	return lua.LNil
}

func fromLua(value lua.LValue) any {
	table, ok := value.(*lua.LTable)
	if !ok {
		return value.String()
	}
	if table.Len() > 0 {
		var list []any
		table.ForEach(func(_, item lua.LValue) { list = append(list, fromLua(item)) })
		return list
	}
	object := map[string]any{}
	table.ForEach(func(key, field lua.LValue) { object[key.String()] = fromLua(field) })
	return object
}

func object(fields map[string]any) map[string]any {
	spec := map[string]any{"type": "ClusterSetIP"}
	for key, value := range fields {
		spec[key] = value
	}
	return map[string]any{"kind": "ServiceImport", "spec": spec}
}

// K8, K9: without this Karmada would revert what the controller writes in a member cluster.
func TestRetainKeepsTheMembersAddresses(t *testing.T) {
	ips, families := []any{"10.0.0.7", "fd00::7"}, []any{"IPv4", "IPv6"}
	for name, test := range map[string]struct{ desired, observed, want map[string]any }{
		"ips and families of the member stay":      {object(nil), object(map[string]any{"ips": ips, "ipFamilies": families}), object(map[string]any{"ips": ips, "ipFamilies": families})},
		"whatever the control plane has":           {object(map[string]any{"ips": []any{"192.0.2.1"}}), object(map[string]any{"ips": ips}), object(map[string]any{"ips": ips})},
		"what the member does not have stays away": {object(nil), object(nil), object(nil)},
		"all else is the control plane's":          {object(map[string]any{"sessionAffinity": "ClientIP"}), object(map[string]any{"ips": ips, "sessionAffinity": "None"}), object(map[string]any{"ips": ips, "sessionAffinity": "ClientIP"})},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, retain(t, test.desired, test.observed)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
