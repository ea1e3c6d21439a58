//! A trip is a flight, a hotel and a car, at three providers. If there is no car, the hotel and the
//! flight are canceled.
//!
//! Each step accepts the next one in the commit that settles it, so no step is forgotten, whatever
//! dies; and each call has one key for all its attempts, so none is made twice.
//!
//! ```sh
//! cargo run -p clinch-examples --bin saga
//! ```
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use clinch::types::{Builder, Request};
use clinch::{Backend, Call, Clinch, Done, Refusal, Retry, Route};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Trip {
    traveler: String,
    /// Providers may have none; the examples of this program do not have this car.
    car: String,
}

/// What a step is, and what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Flight,
    Hotel,
    Car,
    CancelHotel,
    CancelFlight,
    Booked,
    Undone,
}

impl Step {
    /// Every step that calls a provider.
    const CALLS: [Self; 5] = [
        Self::Flight,
        Self::Hotel,
        Self::Car,
        Self::CancelHotel,
        Self::CancelFlight,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Flight => "flight",
            Self::Hotel => "hotel",
            Self::Car => "car",
            Self::CancelHotel => "cancel-hotel",
            Self::CancelFlight => "cancel-flight",
            Self::Booked => "booked",
            Self::Undone => "undone",
        }
    }

    /// The next step if this one was done, and if its provider refused. What can be undone comes
    /// first; a compensation that is refused is for a person, so it has no second way.
    fn then(self, answer: Answer) -> Option<Self> {
        match (self, answer) {
            (Self::Flight, Answer::Done) => Some(Self::Hotel),
            (Self::Hotel, Answer::Done) => Some(Self::Car),
            (Self::Car, Answer::Done) => Some(Self::Booked),
            (Self::Car, Answer::Refused) => Some(Self::CancelHotel),
            (Self::Hotel, Answer::Refused) | (Self::CancelHotel, Answer::Done) => {
                Some(Self::CancelFlight)
            }
            (Self::Flight, Answer::Refused) | (Self::CancelFlight, Answer::Done) => {
                Some(Self::Undone)
            }
            _ => None,
        }
    }

    /// A day for the providers' memory of keys. The deadline is longer than any outage: a step that
    /// it ends is not compensated by anybody.
    fn route(self) -> Route<Trip, Answer> {
        Route::new("trips", self.name())
            .keyed(Duration::from_secs(24 * 60 * 60))
            .deadline(Duration::from_secs(7 * 24 * 60 * 60))
    }

    /// The keys come from the trip: a step that runs again asks for the same next step.
    fn of(self, number: &str, trip: &Trip) -> Request<Answer> {
        self.route().request(number, self.name(), trip)
    }
}

/// A provider's answer. A refusal is an answer too: something follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Answer {
    Done,
    Refused,
}

/// The connection broke, and nobody knows.
#[derive(Debug)]
struct Broken;

/// `call` makes the call of a step under a key.
fn with_providers<F, Fut>(builder: Builder, call: F) -> Builder
where
    F: Fn(Step, Trip, String) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Answer, Broken>> + Send + 'static,
{
    let provider = Arc::new(call);
    let with_calls = Step::CALLS.into_iter().fold(builder, |builder, step| {
        let provider = provider.clone();
        builder.handle(&step.route(), move |call: Call<Trip>| {
            let answering = provider(step, call.input.clone(), call.key().to_owned());
            async move {
                let Ok(answer) = answering.await else {
                    return Err(Refusal::from(Retry::unknown("the connection broke")));
                };
                let done = Done::new(answer);
                Ok(match step.then(answer) {
                    Some(next) => done.then(next.of(call.biz_key(), &call.input)),
                    None => done,
                })
            }
        })
    });
    // The two ends: here a service tells the traveler.
    [Step::Booked, Step::Undone]
        .into_iter()
        .fold(with_calls, |builder, end| {
            builder.handle(&end.route(), move |call: Call<Trip>| async move {
                println!("{} for {}", end.name(), call.input.traveler);
                Ok::<_, Retry>(Answer::Done)
            })
        })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> clinch::Result<()> {
    let builder = Clinch::builder().backend(Backend::memory());
    let clinch = with_providers(builder, |step, trip, _| async move {
        let has_none = step == Step::Car && trip.car == "limousine";
        let answer = if has_none {
            Answer::Refused
        } else {
            Answer::Done
        };
        println!("{} for {}: {answer:?}", step.name(), trip.traveler);
        Ok(answer)
    })
    .build()?;
    for (number, car) in [("trip-7", "bicycle"), ("trip-8", "limousine")] {
        let trip = Trip {
            traveler: format!("the traveler of {number}"),
            car: car.to_owned(),
        };
        clinch
            .start(Step::Flight.of(number, &trip), Duration::from_secs(10))
            .await?;
        // A service calls `run` instead; this program ends with the last step.
        while clinch.pump(10).await?.executed > 0 {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use clinch::testing::{self, Effects, Test};

    use super::*;

    struct Agency {
        test: Test,
        effects: Effects,
        order: Arc<Mutex<Vec<Step>>>,
    }

    /// Providers that remember keys. `lost` answers are lost at each step, after they were applied.
    fn agency(refuses: Option<Step>, lost: u32) -> Agency {
        let (effects, order) = (Effects::default(), Arc::<Mutex<Vec<Step>>>::default());
        let (book, done) = (effects.clone(), order.clone());
        let builder = with_providers(Clinch::builder(), move |step, _, key| {
            let answer = match refuses == Some(step) {
                true => Answer::Refused,
                false => Answer::Done,
            };
            if book.apply_once(&key) {
                done.lock().expect("a list").push(step);
            }
            let is_lost = book.calls(&key) <= lost;
            async move { if is_lost { Err(Broken) } else { Ok(answer) } }
        });
        let test = testing::start(builder).expect("it starts");
        Agency {
            test,
            effects,
            order,
        }
    }

    async fn trip(agency: &Agency) -> Vec<Step> {
        let trip = Trip {
            traveler: "Ada".to_owned(),
            car: "any".to_owned(),
        };
        let first = Step::Flight.of("trip-7", &trip);
        agency
            .test
            .clinch
            .start(first, Duration::ZERO)
            .await
            .expect("accepted");
        agency.test.advance(Duration::from_secs(600)).await;
        let order = agency.order.lock().expect("a list").clone();
        agency.effects.assert_one_effect_each(order.len());
        order
    }

    /// The end that the saga accepted by itself.
    async fn ended(agency: &Agency, end: Step) -> bool {
        let trip = Trip {
            traveler: "Ada".to_owned(),
            car: "any".to_owned(),
        };
        let end = agency
            .test
            .clinch
            .start(end.of("trip-7", &trip), Duration::ZERO)
            .await;
        end.expect("known").replayed()
    }

    #[tokio::test]
    async fn a_trip_is_booked_step_by_step() {
        let agency = agency(None, 0);
        assert_eq!(trip(&agency).await, [Step::Flight, Step::Hotel, Step::Car]);
        assert!(ended(&agency, Step::Booked).await);
    }

    #[tokio::test]
    async fn a_refusal_undoes_what_was_done_in_reverse() {
        let undone = agency(Some(Step::Car), 0);
        let steps = [
            Step::Flight,
            Step::Hotel,
            Step::Car,
            Step::CancelHotel,
            Step::CancelFlight,
        ];
        assert_eq!(trip(&undone).await, steps);
        assert!(ended(&undone, Step::Undone).await);
        let early = agency(Some(Step::Hotel), 0);
        assert_eq!(
            trip(&early).await,
            [Step::Flight, Step::Hotel, Step::CancelFlight]
        );
        let at_once = agency(Some(Step::Flight), 0);
        assert_eq!(trip(&at_once).await, [Step::Flight]);
        assert!(ended(&at_once, Step::Undone).await);
    }

    /// Two answers are lost at every step: each call is made three times under one key, and applied
    /// once.
    #[tokio::test]
    async fn lost_answers_cost_time_and_no_second_booking() {
        let agency = agency(Some(Step::Car), 2);
        assert_eq!(trip(&agency).await.len(), 5);
        assert_eq!(agency.effects.all_calls(), 15);
        assert!(ended(&agency, Step::Undone).await);
    }
}
