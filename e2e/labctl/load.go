package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// load sends requests, one after the other in each of some clients that keep their connections, until it is told to end.
// Then it says how many were answered with 200, and fails if any was not.
func load(args []string) error {
	if len(args) != 2 {
		return errors.New("URL and HOST are missing")
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	var all sync.WaitGroup
	var lock sync.Mutex
	good, bad := 0, map[string]int{}
	for range 8 {
		client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
		all.Go(func() {
			for stop.Err() == nil {
				err := ask(client, args[0], args[1])
				lock.Lock()
				if err == nil {
					good++
				} else {
					bad[err.Error()]++
				}
				lock.Unlock()
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	all.Wait()
	fmt.Printf("%d requests answered\n", good)
	if len(bad) > 0 {
		return fmt.Errorf("failed: %v", bad)
	}
	if good == 0 {
		return errors.New("nothing was asked")
	}
	return nil
}

func ask(client *http.Client, url, host string) error {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Host = host
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
