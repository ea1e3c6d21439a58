//! `nats://HOST`

use std::sync::Arc;

use clinch_core::Result;
use clinch_nats::{NatsBus, Settings};
use clinch_system::SystemClock;

use super::opened::at_address;
use super::{BusUrl, Opened, Options, ServerUrl};

impl BusUrl {
    /// Connects to the server if the bus is NATS, for example to check how it is set up.
    ///
    /// ```no_run
    /// use clinch::backend::{BusUrl, Options};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> clinch::Result<()> {
    /// let bus: BusUrl = "nats://hub:4222".parse()?;
    /// let is_reached = bus.nats(&Options::default()).await?.is_some();
    /// # let _ = is_reached;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn nats(&self, options: &Options) -> Result<Option<NatsBus>> {
        match self {
            Self::Nats(url) => {
                let connected = server(url, options).await;
                connected.map(Some).map_err(|error| at_address(error, url))
            }
            Self::Store | Self::Redis(_) => Ok(None),
        }
    }
}

pub(super) async fn connect(url: &ServerUrl, opened: Opened, options: &Options) -> Result<Opened> {
    let bus = server(url, options).await?;
    Ok(Opened {
        backend: opened.backend.with_bus(Arc::new(bus)),
        ..opened
    })
}

async fn server(url: &ServerUrl, options: &Options) -> Result<NatsBus> {
    let settings = Settings {
        visibility: clinch_engine::HINT_VISIBILITY,
        ..Settings::new(&options.bus_prefix)
    };
    NatsBus::connect(url.secret(), settings, Arc::new(SystemClock::new())).await
}
