//! What admins have done.

use super::Desk;
use crate::cli::table::render;
use crate::cli::{Failure, Global};
use crate::client::ClientError;
use crate::service::{ActionView, AuditView, MemberStatus, Read};

/// Shows the last actions at all nodes: each has those that it was asked for. Those of a node that was
/// taken out are shown as long as it runs and is among those whom `--admin` names.
pub(super) async fn show(desk: &mut Desk<'_>, global: &Global, limit: u32) -> Result<(), Failure> {
    let members = desk.client.members(Read::Stale).await?;
    let mut view = AuditView::default();
    let mut last = None;
    for node in &global.admin {
        let client = global.client_at(vec![node.clone()])?;
        // Whoever of them is a member is asked as one, and is missed then.
        if let Ok(told) = client.audit(limit).await {
            view.actions.extend(told.actions);
        }
    }
    for member in members.into_iter().filter(|one| one.status != MemberStatus::Retired) {
        let told = match global.client_of(&member.addr) {
            Some(client) if member.status == MemberStatus::Alive => client?.audit(limit).await,
            Some(_) | None => {
                view.silent.push(member.id);
                continue;
            }
        };
        match told {
            Ok(told) => view.actions.extend(told.actions),
            // Who may not ask one of them may ask none.
            Err(error) if error.code() == Some("forbidden") => return Err(error.into()),
            Err(error) => {
                last = Some(error);
                view.silent.push(member.id);
            }
        }
    }
    if let (true, Some(error)) = (view.actions.is_empty(), last) {
        return Err(ClientError::into(error));
    }
    let when = |one: &ActionView| (one.time.clone(), one.id, one.node.clone());
    view.actions.sort_by_key(|one| std::cmp::Reverse(when(one)));
    view.actions.dedup_by_key(|one| (one.id, one.node.clone()));
    view.actions.truncate(limit as usize);
    if desk.json() {
        return desk.print_view(&view);
    }
    let (width, wide) = (desk.terminal.width, desk.wide());
    let text = page(if wide { u16::MAX } else { width }, wide, &view);
    desk.terminal.print(&text)
}

fn page(width: u16, wide: bool, view: &AuditView) -> String {
    let mut text = if view.actions.is_empty() {
        "no node has been asked to change anything".to_owned()
    } else {
        table(width, wide, &view.actions)
    };
    if !view.silent.is_empty() {
        let silent: Vec<String> = view.silent.iter().map(ToString::to_string).collect();
        text.push_str("\n\nnot asked, or no answer: ");
        text.push_str(&silent.join(", "));
    }
    text
}

fn table(width: u16, wide: bool, actions: &[ActionView]) -> String {
    let mut header = vec!["WHEN", "NODE", "WHO", "WHAT", "HOW"];
    if wide {
        header.extend(["BY", "ROLE", "FROM", "BODY"]);
    }
    let rows = actions.iter().map(|one| {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let query = one.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        // To the second is enough for people.
        let when = one.time.split('.').next().unwrap_or_default().to_owned() + "Z";
        let mut row = vec![
            when,
            one.node.clone(),
            one.who.clone().unwrap_or_else(|| "somebody".to_owned()),
            format!("{} {}{query}", one.method, one.path),
            one.outcome.clone().unwrap_or_else(|| "no answer".to_owned()),
        ];
        if wide {
            let rest = [Some(one.by.clone()), one.role.clone(), one.from.clone(), one.body.clone()];
            row.extend(rest.iter().map(or_none));
        }
        row
    });
    render(width, &header, rows.collect())
}
