//! The address of one server or several. The client never shows the user name or password in it.

use async_nats::{ConnectOptions, ServerAddr};
use clinch_core::{Error, ErrorKind, Result};
use percent_encoding::percent_decode_str;

/// The servers of one cluster, and the login.
pub(crate) struct Address {
    pub(crate) servers: Vec<ServerAddr>,
    login: Option<Login>,
}

enum Login {
    Token(String),
    User(String, String),
}

impl Address {
    /// Parses addresses separated by commas. The first address with a user name gives the login for
    /// all.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let unreadable = || {
            let message = "the address of the NATS server must look like nats://host:4222";
            Error::new(ErrorKind::Invalid, message)
        };
        let servers = text.split(',').map(|one| one.trim().parse());
        let servers: Result<Vec<ServerAddr>, _> = servers.collect();
        let servers = servers.map_err(|_| unreadable())?;
        if servers.iter().any(|server| server.host().is_empty()) {
            return Err(unreadable());
        }
        let login = match servers.iter().find(|server| server.has_user_pass()) {
            Some(server) => Some(Login::of(server).ok_or_else(unreadable)?),
            None => None,
        };
        Ok(Self { servers, login })
    }

    pub(crate) fn log_in(&self, options: ConnectOptions) -> ConnectOptions {
        match &self.login {
            Some(Login::Token(token)) => options.token(token.clone()),
            Some(Login::User(user, password)) => {
                options.user_and_password(user.clone(), password.clone())
            }
            None => options,
        }
    }
}

impl Login {
    fn of(server: &ServerAddr) -> Option<Self> {
        let plain = |text: &str| {
            let text = percent_decode_str(text).decode_utf8().ok()?;
            Some(text.into_owned())
        };
        let user = plain(server.username()?)?;
        Some(match server.password() {
            Some(password) => Self::User(user, plain(password)?),
            None => Self::Token(user),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_servers_and_odd_passwords_are_read() {
        let address = Address::parse("nats://me:p%40ss@a:1, b:2,tls://c").expect("an address");
        assert_eq!(address.servers.len(), 3);
        let Some(Login::User(user, password)) = address.login else {
            panic!("a user");
        };
        assert_eq!((user.as_str(), password.as_str()), ("me", "p@ss"));
        let token = Address::parse("nats://t0ken@a").expect("an address");
        assert!(matches!(token.login, Some(Login::Token(token)) if token == "t0ken"));
        let nobody = Address::parse("127.0.0.1").expect("an address");
        assert!(nobody.login.is_none());
        for bad in ["", "http://a", "nats://a b", "nats://a,,"] {
            assert!(Address::parse(bad).is_err(), "{bad:?}");
        }
    }
}
