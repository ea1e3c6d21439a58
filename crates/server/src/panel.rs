//! Pages of an application in the console. The application says what to show, the console how.

use async_trait::async_trait;
use clinch::Result;

/// Pages of an application, under `/apps/{domain}`. A visitor's key must cover the whole domain.
#[async_trait]
pub trait Panel: Send + Sync {
    /// Its entry in the navigation.
    fn title(&self) -> &str;

    /// The page at this path below `/apps/{domain}/`; the first page is at the empty path. An error
    /// of the kind `NotFound` is shown as such.
    async fn page(&self, path: &str) -> Result<PanelPage>;

    /// Does what a button asks for, with the reason that the visitor gave; needs the scope
    /// `operate`.
    async fn act(&self, path: &str, action: &str, reason: &str) -> Result<()>;
}

/// One page.
#[derive(Debug, Clone, Default)]
pub struct PanelPage {
    /// Its heading.
    pub title: String,
    /// One sentence under the heading.
    pub lead: String,
    /// Buttons of the page.
    pub actions: Vec<PanelAction>,
    /// Its parts, in order.
    pub sections: Vec<PanelSection>,
}

/// A button that asks for a reason.
#[derive(Debug, Clone)]
pub struct PanelAction {
    /// Names the action for [`Panel::act`].
    pub name: &'static str,
    /// The text of the button.
    pub title: &'static str,
    /// What it does.
    pub what: &'static str,
}

/// A part of a page: a table with a heading.
#[derive(Debug, Clone)]
pub struct PanelSection {
    /// Its heading.
    pub title: String,
    /// The headings of the columns.
    pub columns: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Vec<PanelCell>>,
    /// The text if there is no row.
    pub empty: &'static str,
}

/// One cell of a table.
#[derive(Debug, Clone, Default)]
pub struct PanelCell {
    /// Its text.
    pub text: String,
    /// A path of the console that it links to.
    pub link: Option<String>,
    /// How the text is marked.
    pub mark: Option<PanelMark>,
}

/// The meaning of a marked text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PanelMark {
    /// It went well.
    Good,
    /// It failed.
    Bad,
    /// It waits.
    Waiting,
    /// It is running.
    Running,
}

impl PanelCell {
    /// Plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Text that leads to another page of the console.
    pub fn link(text: impl Into<String>, path: impl Into<String>) -> Self {
        Self {
            link: Some(path.into()),
            ..Self::text(text)
        }
    }

    /// Marked text.
    pub fn mark(text: impl Into<String>, mark: PanelMark) -> Self {
        Self {
            mark: Some(mark),
            ..Self::text(text)
        }
    }
}
