// labctl does for the end-to-end cluster what a cloud, a registry and kubeadm do for others. Standard library only.
package main

import (
	"fmt"
	"os"
)

const usage = `usage:
  labctl certs DIR NODE IP,... SERVER       write an authority, certificates and kubeconfigs
  labctl image [flags] SRC:DST[:MODE]...    write an image of these files, as ctr imports it; -h tells the flags
  labctl lb KUBECONFIG FIRST-LAST           give Services of type LoadBalancer an address of this range
  labctl load URL HOST                      send requests until it is ended, and fail if one was not answered with 200`

func main() {
	commands := map[string]func([]string) error{"certs": certs, "image": image, "lb": loadBalancers, "load": load}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "labctl %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}
