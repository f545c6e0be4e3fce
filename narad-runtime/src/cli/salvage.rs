//! What promotions have left behind, and what is done about it.

use super::Failure;
use super::cluster::SalvageCommand;
use super::table::{bytes, render};
use super::terminal::Terminal;
use crate::client::Client;
use crate::service::{AcceptedView, LossCause, NewLoss, QuarantinedView, ReceiptView, SalvageView};

/// Shows receipts, then the quarantine.
pub(super) fn show(width: u16, view: &SalvageView) -> String {
    let mut text = if view.receipts.is_empty() {
        "no promotion has left anything behind, and nothing was declared lost".to_owned()
    } else {
        show_receipts(width, &view.receipts)
    };
    text.push_str("\n\n");
    if view.quarantine.is_empty() {
        text.push_str("nothing is in quarantine");
    } else {
        text.push_str(&show_quarantine(width, &view.quarantine));
    }
    if !view.silent.is_empty() {
        let silent: Vec<String> = view.silent.iter().map(ToString::to_string).collect();
        text.push_str("\n\nnot asked, or no answer: ");
        text.push_str(&silent.join(", "));
    }
    text
}

fn show_receipts(width: u16, receipts: &[ReceiptView]) -> String {
    let header = ["PARTITION", "CAUSE", "EPOCH", "FROM", "TO", "AT RISK", "SALVAGED"];
    let rows = receipts.iter().map(|receipt| {
        vec![
            format!("{}/{}", receipt.topic, receipt.partition),
            cause(receipt.cause).into(),
            format!("{} -> {}", receipt.old_epoch, receipt.epoch),
            receipt.old_owner.to_string(),
            receipt.new_owner.to_string(),
            at_risk(receipt),
            if receipt.salvaged { "yes" } else { "waits for the old owner" }.into(),
        ]
    });
    render(width, &header, rows.collect())
}

fn show_quarantine(width: u16, quarantine: &[QuarantinedView]) -> String {
    let header = ["IN QUARANTINE", "PARTITION", "KIND", "SIZE", "ACCEPTED AGAIN"];
    let rows = quarantine.iter().map(|one| {
        let topic = one.topic.as_ref().map_or_else(|| "(deleted)".to_owned(), ToString::to_string);
        vec![
            format!("{}/{}", one.member, one.id),
            format!("{topic}/{}", one.partition),
            if one.copy { "copy" } else { "log" }.into(),
            bytes(one.bytes.0),
            one.accepted.as_ref().map_or_else(|| "-".into(), accepted),
        ]
    });
    render(width, &header, rows.collect())
}

const fn cause(cause: LossCause) -> &'static str {
    match cause {
        LossCause::Promoted => "promoted",
        LossCause::DeclaredLost => "declared lost",
        LossCause::Unknown => "?",
    }
}

fn at_risk(receipt: &ReceiptView) -> String {
    match receipt.at_risk_from {
        Some(from) => format!("from {from} on"),
        None => format!("all below offset {} that consumers had not acknowledged", receipt.start),
    }
}

fn accepted(accepted: &AcceptedView) -> String {
    let AcceptedView { from, end, records, .. } = accepted;
    format!("{records} records, {from} to {end}")
}

/// Restores or drops one thing.
pub(super) async fn act(
    client: &Client,
    command: &SalvageCommand,
    json: bool,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    match command {
        SalvageCommand::Restore { what: (member, id) } => {
            let restored = client.restore(member, id).await?;
            if json {
                return print(&restored, terminal);
            }
            terminal.print(&format!("accepted again: {}", accepted(&restored)))
        }
        SalvageCommand::Drop { what: (member, id), yes } => {
            let what = format!("{member}/{id} would be deleted for good");
            terminal.confirm(*yes, &what).await?;
            client.drop_quarantined(member, id).await?;
            if json { Ok(()) } else { terminal.print(&format!("{member}/{id} is deleted")) }
        }
    }
}

/// Declares a partition lost, or says what that would mean.
pub(super) async fn declare_lost(
    client: &Client,
    (topic, partition): &(String, u32),
    yes: bool,
    receipt: &str,
    json: bool,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let loss = |dry_run| NewLoss {
        topic: topic.clone(),
        partition: *partition,
        receipt: receipt.to_owned(),
        dry_run,
    };
    // People are shown what it would mean, then asked; elsewhere it is only shown.
    let mut yes = yes;
    if !yes && terminal.in_is_terminal && !json {
        let would_be = client.declare_lost(&loss(true)).await?;
        terminal.confirm(false, &told(&would_be, false)).await?;
        yes = true;
    }
    let receipt = client.declare_lost(&loss(!yes)).await?;
    if json {
        let mut told = serde_json::to_value(&receipt).expect("a receipt has text keys only");
        if !yes {
            told["dry_run"] = true.into();
        }
        return print(&told, terminal);
    }
    let mut text = told(&receipt, yes);
    if !yes {
        text.push_str(
            "\nnothing was changed: add --yes to do it; narad cluster moves shows whether a copy \
             only waits",
        );
    }
    terminal.print(&text)
}

/// Says what was given up, or would be.
fn told(receipt: &ReceiptView, done: bool) -> String {
    let goes_on = if done { "goes on" } else { "would go on" };
    format!(
        "{}/{} {goes_on} at {} from offset {} on, in epoch {}\n\
         at risk of {}'s records of epoch {}: {}; should it return, they are accepted again",
        receipt.topic,
        receipt.partition,
        receipt.new_owner,
        receipt.start,
        receipt.epoch,
        receipt.old_owner,
        receipt.old_epoch,
        at_risk(receipt)
    )
}

fn print(view: &impl serde::Serialize, terminal: &mut Terminal) -> Result<(), Failure> {
    let body = serde_json::to_vec(view).expect("these views have text keys only");
    terminal.print_json(&body)
}
