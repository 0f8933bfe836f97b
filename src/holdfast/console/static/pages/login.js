/**
 * Login, by name and password or by the one-time link that the first start prints.
 *
 * The link's token stands behind `#`, so that no server log has it, and leaves the address before anything else is done.
 */
import { post } from "../parts/api.js";
import { html, useEffect, useState } from "../parts/html.js";
import { Field, Notice } from "../parts/text.js";
import { T } from "../texts.js";

/** Where to go afterwards: a page of this console, never another place. */
function next() {
  const to = new URLSearchParams(location.search).get("next") ?? "/";
  const url = new URL(to, location.origin);
  return to.startsWith("/") && url.origin === location.origin && url.pathname !== "/login" ? url.pathname + url.search : "/";
}

function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  return token;
}

export function Page() {
  const [token] = useState(takeToken);
  const [busy, setBusy] = useState(Boolean(token));
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [error, setError] = useState(/** @type {any} */ (null));
  const [missing, setMissing] = useState(false);
  const login = async (/** @type {unknown} */ body) => {
    setBusy(true);
    setError(null);
    try {
      await post("login", body);
      location.replace(next());
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  useEffect(() => { if (token) login({ link: token }); }, []);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    setMissing(!name || !password);
    if (name && password) login({ name, password });
  };
  const failedLink = error && token && !name;
  return html`<div class="login"><img src="/static/icon.svg" alt="" /><h1>${T.login.title}</h1>
    ${busy && token && !name ? html`<p role="status">${T.login.link}</p>` : html`<form onSubmit=${submit} novalidate>
      ${error && html`<${Notice} kind="bad" role="alert">${failedLink ? html`${T.login.linkFailed} <code>${T.login.command}</code>` : error.detail}</${Notice}>`}
      <${Field} id="login-name" label=${T.login.name} value=${name} onInput=${setName} autocomplete="username" error=${missing && !name ? T.login.missing : null} />
      <${Field} id="login-password" type="password" label=${T.login.password} value=${password} onInput=${setPassword} autocomplete="current-password" error=${missing && !password ? T.login.missing : null} />
      <button type="submit" class="button primary" disabled=${busy}>${busy ? T.login.busy : T.login.submit}</button>
      <p class="soft small">${T.login.hint} <code>${T.login.command}</code></p></form>`}</div>`;
}
