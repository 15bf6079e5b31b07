// Starts `sempre lsp` and connects the editor with it.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function start() {
  const settings = vscode.workspace.getConfiguration("sempre");
  const server = { command: settings.get("command"), args: ["lsp", ...settings.get("arguments")] };
  client = new LanguageClient("sempre", "sempre", server, {
    documentSelector: [{ language: "souffle" }],
    synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher("**/*.dl") },
  });
  try {
    await client.start();
  } catch (error) {
    vscode.window.showErrorMessage(
      `sempre: cannot start \`${server.command} lsp\` (${error.message}). ` +
        "Install it with pip install 'sempre[lsp]', and set sempre.command if it is not on PATH."
    );
  }
}

async function restart() {
  await deactivate();
  await start();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("sempre.restart", restart),
    vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration("sempre") && restart())
  );
  await start();
}

function deactivate() {
  return client?.isRunning() ? client.stop() : undefined;
}

module.exports = { activate, deactivate };
