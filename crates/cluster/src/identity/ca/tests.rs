use std::time::{Duration, SystemTime};

use super::*;

const MINUTE: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);

fn begin() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_hours(500_000)
}

fn names() -> Vec<String> {
    vec!["portcullis.infra.svc".into(), "portcullis.infra".into()]
}

/// A replica that leads, with a clock that goes as the test says.
struct World {
    now: SystemTime,
    stored: Option<CaSecret>,
    wait: Duration,
}

impl World {
    fn new() -> Self {
        let mut world = Self { now: begin(), stored: None, wait: Duration::ZERO };
        world.look();
        world
    }

    fn look(&mut self) {
        let before = self.stored.take();
        let (stored, wait) = advance(before.clone(), &names(), &RotationPolicy::default(), self.now).expect("made");
        if before.as_ref() != Some(&stored) {
            // What is kept is all that counts.
            assert_eq!(CaSecret::from_data(&stored.to_data()).expect("readable"), stored);
        }
        (self.stored, self.wait) = (Some(stored), wait);
    }

    /// Time passes as it was said, look by look, and at least so much of it.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            assert!(self.wait > Duration::ZERO);
            self.now += self.wait;
            self.look();
        }
    }

    fn stored(&self) -> &CaSecret {
        self.stored.as_ref().expect("looked")
    }

    fn bundle(&self) -> String {
        self.stored().bundle()
    }

    /// Who signed what is shown.
    fn signer(&self) -> String {
        let stored = self.stored();
        let info = CertificateInfo::of(stored.serving().expect("there is always one").0).expect("readable");
        assert!(info.valid_at(self.now), "what is shown is valid");
        assert!(info.issued_by(&stored.info));
        stored.signing.certificate.clone()
    }
}

fn cas(bundle: &str) -> usize {
    bundle.matches("BEGIN CERTIFICATE").count()
}

#[test]
fn the_first_look_makes_all_there_has_to_be() {
    let world = World::new();
    assert_eq!(cas(&world.bundle()), 1);
    assert!(world.bundle().contains(world.signer().trim()));
    let info = CertificateInfo::of(world.stored().serving().expect("one").0).expect("readable");
    assert_eq!(info.names, ["portcullis.infra", "portcullis.infra.svc"]);
    assert_eq!(world.wait, LONGEST_WAIT);
}

#[test]
fn nothing_happens_before_it_is_due() {
    let mut world = World::new();
    let first = world.stored().clone();
    world.pass(14 * DAY);
    assert_eq!(*world.stored(), first);
}

#[test]
fn a_serving_certificate_is_renewed_by_the_same_authority_long_before_it_expires() {
    let mut world = World::new();
    let (bundle, first) = (world.bundle(), world.stored().serving().expect("one").0.to_owned());
    world.pass(15 * DAY);
    assert_ne!(world.stored().serving().expect("one").0, first);
    assert_eq!(world.bundle(), bundle);
}

#[test]
fn other_names_make_another_serving_certificate_and_no_other_authority() {
    let mut world = World::new();
    let bundle = world.bundle();
    let other = vec!["other.infra.svc".to_owned()];
    let (stored, _) = advance(world.stored.take(), &other, &RotationPolicy::default(), world.now).expect("made");
    assert_eq!(stored.serving_info.as_ref().expect("one").names, other);
    assert_eq!(stored.bundle(), bundle);
}

/// Two years, look by look. A proxy has each bundle for up to `spread` longer than it is published, and each replica
/// shows what it read for up to as long: whichever they have, they agree.
#[test]
fn no_proxy_ever_meets_a_certificate_that_it_does_not_trust() {
    let propagation = RotationPolicy::default().propagation;
    let mut world = World::new();
    let mut seen: Vec<(SystemTime, String, String)> = Vec::new();
    let mut signers = std::collections::BTreeSet::new();
    let end = world.now + 730 * DAY;
    while world.now < end {
        let signer = world.signer();
        seen.push((world.now, world.bundle(), signer.clone()));
        seen.retain(|(at, ..)| *at + propagation > world.now);
        for (_, bundle, _) in &seen {
            for (.., signer) in &seen {
                assert!(bundle.contains(signer.trim()), "at {:?}", world.now.duration_since(begin()));
            }
        }
        signers.insert(signer);
        world.now += world.wait;
        world.look();
    }
    assert_eq!(signers.len(), 3, "an authority for 245 days each");
}

#[test]
fn the_next_authority_is_announced_before_it_signs_and_the_old_one_stays_for_as_long() {
    let mut world = World::new();
    let first = world.signer();
    world.pass(245 * DAY);
    assert_eq!((cas(&world.bundle()), world.signer()), (2, first.clone()));
    world.pass(RotationPolicy::default().propagation);
    assert_ne!(world.signer(), first);
    assert!(world.bundle().contains(first.trim()));
    world.pass(RotationPolicy::default().propagation);
    assert_eq!(cas(&world.bundle()), 1);
}

#[test]
fn a_clock_that_jumps_back_makes_no_wait_longer() {
    let mut world = World::new();
    let first = world.signer();
    world.pass(245 * DAY);
    assert_eq!(cas(&world.bundle()), 2);
    // The announced one is not valid yet by the clock of now, and an own one is announced instead.
    world.now -= 100 * DAY;
    world.look();
    assert_eq!((cas(&world.bundle()), world.signer()), (2, first.clone()));
    world.pass(RotationPolicy::default().propagation);
    assert_ne!(world.signer(), first);
    // By a little: the old one stays no longer than it should.
    world.now -= 30 * MINUTE;
    world.look();
    world.pass(RotationPolicy::default().propagation);
    assert_eq!(cas(&world.bundle()), 1);
}

#[test]
fn a_clock_that_jumps_over_everything_makes_everything_new_at_once() {
    for days in [364, 366, 5000] {
        let mut world = World::new();
        let first = world.signer();
        world.now += days * DAY;
        world.look();
        world.signer();
        assert!(world.stored().info.valid_at(world.now));
        // And back, with a certificate that is not valid yet.
        world.now = begin();
        world.look();
        assert_eq!(world.signer() == first, days == 364, "{days}");
    }
}

#[test]
fn a_secret_that_was_taken_away_is_answered_by_a_successor_and_not_by_a_break() {
    let mut world = World::new();
    let first = world.signer();
    let known = world.stored.take().expect("looked");
    world.stored = Some(replace(known, &RotationPolicy::default(), world.now).expect("made"));
    world.look();
    assert_eq!((cas(&world.bundle()), world.signer()), (2, first.clone()));
    world.pass(2 * RotationPolicy::default().propagation);
    assert_ne!(world.signer(), first);
    assert_eq!(cas(&world.bundle()), 1);
}

#[test]
fn a_secret_with_anything_wrong_is_told_and_its_keys_are_not() {
    let (ours, theirs) = (World::new(), World::new());
    let data = ours.stored().to_data();
    for (key, value) in [
        ("signing.crt", &b"nothing"[..]),
        ("signing.key", b"\xff"),
        ("signing.key", &theirs.stored().to_data()["signing.key"].0),
        ("tls.key", &theirs.stored().to_data()["tls.key"].0),
        ("outgoing.crt", b"nothing"),
    ] {
        let mut data = data.clone();
        data.insert(key.into(), k8s_openapi::ByteString(value.to_vec()));
        let error = CaSecret::from_data(&data).expect_err(key).to_string();
        assert!(!error.contains("PRIVATE"), "{error}");
    }
    assert!(matches!(
        CaSecret::from_data(&std::collections::BTreeMap::new()),
        Err(CaSecretError::Missing("signing.crt"))
    ));
    assert!(!format!("{:?}", ours.stored()).contains("PRIVATE"));
}
