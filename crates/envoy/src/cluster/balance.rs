//! How requests are spread over endpoints, and which of them get any.

use envoy_types::pb::{
    envoy::{
        config::{
            cluster::v3::{
                CircuitBreakers, LoadBalancingPolicy, OutlierDetection as EnvoyOutliers,
                circuit_breakers::Thresholds,
                cluster::{
                    CommonLbConfig, LbConfig, LbPolicy, LeastRequestLbConfig, MaglevLbConfig, RingHashLbConfig,
                    RoundRobinLbConfig, SlowStartConfig,
                },
                load_balancing_policy::Policy,
            },
            core::v3::{
                HealthCheck as EnvoyHealthCheck, RequestMethod, RuntimeDouble, TypedExtensionConfig,
                health_check::{GrpcHealthCheck, HealthChecker, HttpHealthCheck},
            },
        },
        extensions::load_balancing_policies::{
            common::v3::ConsistentHashingLbConfig, maglev::v3::Maglev, ring_hash::v3::RingHash,
        },
        r#type::v3::{CodecClientType, Percent},
    },
    google::protobuf::UInt64Value,
};
use ir::{
    backend::{ClusterLimits, Protocol},
    upstream::{Balance, Breakers, HealthCheck, HealthCheckBy, LoadBalancer, OutlierDetection, SlowStart},
};

use crate::{boolean, bytes::any, duration, extension, uint32};

/// What is chosen by, with its options.
pub(super) fn policy(balance: Option<&LoadBalancer>) -> (LbPolicy, Option<LbConfig>) {
    let Some(LoadBalancer { by, .. }) = balance else { return (LbPolicy::LeastRequest, None) };
    match by {
        Balance::LeastRequest { choices, slow_start } => {
            let config = LeastRequestLbConfig {
                choice_count: Some(uint32(*choices)),
                slow_start_config: slow_start.as_ref().map(slow),
                ..LeastRequestLbConfig::default()
            };
            (LbPolicy::LeastRequest, Some(LbConfig::LeastRequestLbConfig(config)))
        }
        Balance::RoundRobin { slow_start } => {
            let config = RoundRobinLbConfig { slow_start_config: slow_start.as_ref().map(slow) };
            (LbPolicy::RoundRobin, Some(LbConfig::RoundRobinLbConfig(config)))
        }
        Balance::Random => (LbPolicy::Random, None),
        Balance::RingHash { least, most, .. } => {
            let size = |value| UInt64Value { value };
            let config = RingHashLbConfig {
                minimum_ring_size: least.map(size),
                maximum_ring_size: Some(size(*most)),
                ..RingHashLbConfig::default()
            };
            (LbPolicy::RingHash, Some(LbConfig::RingHashLbConfig(config)))
        }
        Balance::Maglev { .. } => (LbPolicy::Maglev, Some(LbConfig::MaglevLbConfig(MaglevLbConfig::default()))),
    }
}

/// The same for hashes of hostnames, which Envoy takes in this form alone for clusters that look for their hosts.
pub(super) fn by_hostname(balance: Option<&LoadBalancer>) -> Option<LoadBalancingPolicy> {
    let hashing =
        || Some(ConsistentHashingLbConfig { use_hostname_for_hashing: true, ..ConsistentHashingLbConfig::default() });
    let size = |value| UInt64Value { value };
    let (name, config) = match &balance?.by {
        Balance::RingHash { least, most, hash } if hash.by_hostname => {
            let ring = RingHash {
                minimum_ring_size: least.map(size),
                maximum_ring_size: Some(size(*most)),
                consistent_hashing_lb_config: hashing(),
                ..RingHash::default()
            };
            (extension::RING_HASH, any(&ring))
        }
        Balance::Maglev { hash } if hash.by_hostname => {
            let maglev = Maglev { consistent_hashing_lb_config: hashing(), ..Maglev::default() };
            (extension::MAGLEV, any(&maglev))
        }
        _ => return None,
    };
    let config = TypedExtensionConfig { name: name.into(), typed_config: Some(config) };
    Some(LoadBalancingPolicy { policies: vec![Policy { typed_extension_config: Some(config) }] })
}

fn slow(SlowStart { window, aggression, least_percent }: &SlowStart) -> SlowStartConfig {
    SlowStartConfig {
        slow_start_window: window.map(duration),
        aggression: aggression.map(|bits| RuntimeDouble {
            default_value: f64::from_bits(bits),
            // What no setting of a proxy changes still needs a name.
            runtime_key: "slow_start.aggression".into(),
        }),
        min_weight_percent: least_percent.map(|percent| Percent { value: percent.into() }),
    }
}

/// Adds to what holds for every cluster.
pub(super) fn common(balance: &LoadBalancer, config: CommonLbConfig) -> CommonLbConfig {
    let LoadBalancer { panic_threshold, update_merge_window, close_on_change, .. } = balance;
    CommonLbConfig {
        healthy_panic_threshold: panic_threshold
            .map(|percent| Percent { value: percent.into() })
            .or(config.healthy_panic_threshold),
        update_merge_window: update_merge_window.map(duration),
        close_connections_on_host_set_change: *close_on_change,
        ..config
    }
}

pub(super) fn circuit_breakers(limits: ClusterLimits, breakers: Option<&Breakers>) -> CircuitBreakers {
    let own = breakers.copied().unwrap_or_default();
    // The proxy is shared, so nobody has more of it than its operator gives.
    let least = |own: Option<u32>, most: u32| Some(uint32(own.map_or(most, |own| own.min(most))));
    CircuitBreakers {
        thresholds: vec![Thresholds {
            max_connections: least(own.connections, limits.connections),
            max_pending_requests: least(own.pending_requests, limits.pending_requests),
            max_requests: least(own.requests, limits.requests),
            max_retries: least(own.retries, limits.retries),
            track_remaining: own.track_remaining,
            ..Thresholds::default()
        }],
        ..CircuitBreakers::default()
    }
}

pub(super) fn outliers(said: &OutlierDetection) -> EnvoyOutliers {
    EnvoyOutliers {
        consecutive_5xx: said.consecutive_5xx.map(uint32),
        interval: said.interval.map(duration),
        base_ejection_time: said.base_ejection_time.map(duration),
        max_ejection_percent: said.max_ejection_percent.map(uint32),
        enforcing_consecutive_5xx: said.enforcing_consecutive_5xx.map(uint32),
        split_external_local_origin_errors: said.split_local,
        consecutive_local_origin_failure: said.consecutive_local.map(uint32),
        enforcing_consecutive_local_origin_failure: said.enforcing_consecutive_local.map(uint32),
        ..EnvoyOutliers::default()
    }
}

pub(super) fn health_check(check: &HealthCheck, protocol: Protocol) -> EnvoyHealthCheck {
    let checker = match &check.by {
        HealthCheckBy::Http { host, path, method } => HealthChecker::HttpHealthCheck(HttpHealthCheck {
            host: host.to_string(),
            path: path.to_string(),
            method: RequestMethod::from_str_name(method).unwrap_or(RequestMethod::Get) as i32,
            codec_client_type: match protocol {
                Protocol::Http1 | Protocol::Http1Tls => CodecClientType::Http1,
                Protocol::H2c => CodecClientType::Http2,
            } as i32,
            ..HttpHealthCheck::default()
        }),
        HealthCheckBy::Grpc { service, authority } => HealthChecker::GrpcHealthCheck(GrpcHealthCheck {
            service_name: service.to_string(),
            authority: authority.to_string(),
            ..GrpcHealthCheck::default()
        }),
    };
    EnvoyHealthCheck {
        timeout: Some(duration(check.timeout)),
        interval: Some(duration(check.interval)),
        unhealthy_threshold: Some(uint32(check.unhealthy)),
        healthy_threshold: Some(uint32(check.healthy)),
        // One that was never asked, since nothing went there, is asked as often as any other, not once a minute.
        no_traffic_interval: Some(duration(check.interval)),
        reuse_connection: Some(boolean(true)),
        health_checker: Some(checker),
        ..EnvoyHealthCheck::default()
    }
}
