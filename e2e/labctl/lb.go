package main

import (
	"errors"
	"log"
	"net/netip"
	"strings"
	"time"
)

// pause lies between two looks at all Services.
const pause = 300 * time.Millisecond

// service is what of a Service decides on its address.
type service struct {
	Metadata struct{ Name, Namespace string }
	Spec     struct{ Type, LoadBalancerIP string }
	Status   struct {
		LoadBalancer struct{ Ingress []struct{ IP string } }
	}
}

// loadBalancers gives each Service of type LoadBalancer an address of a range. What is sent there is kube-proxy's job.
func loadBalancers(args []string) error {
	if len(args) != 2 {
		return errors.New("want KUBECONFIG FIRST-LAST")
	}
	api, err := newClient(args[0])
	if err != nil {
		return err
	}
	from, to, _ := strings.Cut(args[1], "-")
	first, err := netip.ParseAddr(from)
	if err != nil {
		return err
	}
	last, err := netip.ParseAddr(to)
	if err != nil {
		return err
	}
	for ; ; time.Sleep(pause) {
		var found struct{ Items []service }
		if err := api.do("GET", "/api/v1/services", nil, &found); err != nil {
			log.Print(err)
			continue
		}
		for i, address := range assign(found.Items, first, last) {
			meta := found.Items[i].Metadata
			path := "/api/v1/namespaces/" + meta.Namespace + "/services/" + meta.Name + "/status"
			ingress := []any{map[string]any{"ip": address, "ipMode": "VIP"}}
			status := map[string]any{"loadBalancer": map[string]any{"ingress": ingress}}
			log.Print(meta.Namespace, "/", meta.Name, ": ", address)
			if err := api.do("PATCH", path, map[string]any{"status": status}, nil); err != nil {
				log.Print(err)
			}
		}
	}
}

// assign says which Services, by index, get which address now. One that asks for an address gets that or none: an
// address out of the range never comes, as with a cloud that does not own it.
func assign(services []service, first, last netip.Addr) map[int]string {
	taken := map[string]bool{}
	for _, s := range services {
		if s.Spec.Type == "LoadBalancer" {
			taken[s.Spec.LoadBalancerIP] = true
			taken[s.address()] = true
		}
	}
	assigned := map[int]string{}
	for i, s := range services {
		if s.Spec.Type != "LoadBalancer" {
			continue
		}
		wanted := s.Spec.LoadBalancerIP
		if wanted == "" && s.address() == "" {
			for ip := first; wanted == "" && ip.Compare(last) <= 0; ip = ip.Next() {
				if !taken[ip.String()] {
					wanted = ip.String()
				}
			}
		}
		ip, err := netip.ParseAddr(wanted)
		if err != nil || wanted == s.address() || ip.Compare(first) < 0 || last.Compare(ip) < 0 {
			continue
		}
		taken[wanted] = true
		assigned[i] = wanted
	}
	return assigned
}

func (s service) address() string {
	if len(s.Status.LoadBalancer.Ingress) == 0 {
		return ""
	}
	return s.Status.LoadBalancer.Ingress[0].IP
}
