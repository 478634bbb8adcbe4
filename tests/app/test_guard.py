"""Attacks on the server: what each request must show, and what becomes of one that does not."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.routing import Route

from lindley.app.guard import POLICY
from lindley.app.pages import ROUTES
from tests.app.conftest import HOME, PORT, Client

KNOWN = {"Host": f"127.0.0.1:{PORT}"}


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", f"evil.example:{PORT}", "127.0.0.1", "localhost", f"127.0.0.1:{PORT + 1}", f"0.0.0.0:{PORT}",
        f"[::1]:{PORT}", f"127.0.0.1.evil.example:{PORT}", f"localhost:{PORT}.evil.example", f"LOCALHOST.:{PORT}", "",
        f"127.0.0.1:{PORT}@evil.example", f"2130706433:{PORT}", f"127.1:{PORT}",
    ],
)  # fmt: skip
def test_a_name_of_a_stranger_that_leads_here_is_refused(client: Client, host: str) -> None:
    answer = client.get("/", headers={"Host": host})
    assert answer.status_code == 421
    assert "Bench" not in answer.text


@pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}"])
def test_its_own_names_are_answered(client: Client, host: str) -> None:
    guard: Any = client.app
    answer = client.get("/", headers={"Host": host, "Cookie": f"{guard.cookie}={guard.session}"})
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/", "/tables", "/static/app.js", "/jobs/1/events", "/nowhere"])
@pytest.mark.parametrize(
    "cookie", ["", "lindley-8760=", "lindley-8760=wrong", "lindley-8761={session}", "lindley-8760=é"]
)
def test_nobody_without_the_cookie_is_answered(client: Client, path: str, cookie: str) -> None:
    guard: Any = client.app
    client.cookies.clear()
    answer = client.get(path, headers={"Cookie": cookie.format(session=guard.session).encode("latin-1")})
    assert answer.status_code == 403
    assert "lindley app" in answer.text


@pytest.mark.parametrize(
    "others", ["a=b; {}", "{}; x", 'j|x=2|1:0; {}; "', "lindley-8760=wrong; {}", "{}; lindley-8760=", "=;;; {}"]
)
def test_cookies_of_other_programs_on_this_machine_keep_nobody_out(client: Client, others: str) -> None:
    guard: Any = client.app
    client.cookies.clear()
    answer = client.get("/", headers={"Cookie": others.format(f"{guard.cookie}={guard.session}")})
    assert answer.status_code == 200


@pytest.mark.parametrize("token", ["", "wrong", "{token}x", "{token}&token=x", "{session}"])
def test_a_wrong_token_gives_no_cookie(client: Client, token: str) -> None:
    guard: Any = client.app
    client.cookies.clear()
    answer = client.get(f"/?token={token.format(token=guard.token, session=guard.session)}")
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_the_token_is_exchanged_for_a_strict_cookie(client: Client) -> None:
    guard: Any = client.app
    client.cookies.clear()
    answer = client.get(f"/?token={guard.token}")
    assert answer.status_code == 200
    assert guard.token not in answer.text
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert guard.token not in cookie
    assert client.get("/").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"Origin": "null"}, {"Origin": "http://evil.example"}, {"Origin": f"http://127.0.0.1:{PORT + 1}"},
        {"Origin": f"https://127.0.0.1:{PORT}"}, {"Origin": f"http://localhost:{PORT}"},  # the other of its own names
        {"Origin": f"{HOME}.evil.example"}, {"Origin": HOME, "Sec-Fetch-Site": "cross-site"},
        {"Origin": HOME, "Sec-Fetch-Site": "same-site"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/tables", "/language", "/jobs/1/cancel"])
def test_a_form_of_another_page_is_refused(client: Client, headers: dict[str, str], path: str) -> None:
    answer = client.post(path, data={"csrf": client.csrf, "once": "a" * 24}, headers=headers)
    assert answer.status_code == 403
    assert "another page" in answer.text


@pytest.mark.parametrize("csrf", [None, "", "0" * 64, "é"])
def test_a_form_without_its_secret_is_refused(client: Client, csrf: str | None) -> None:
    fields = {"once": "a" * 24} if csrf is None else {"once": "a" * 24, "csrf": csrf}
    for path in ("/tables", "/language", "/tables/1/keep", "/tables/1/reading", "/jobs/1/cancel", "/jobs/1/go-on"):
        answer = client.post(path, data=fields, headers={"Origin": HOME})
        assert answer.status_code == 403
        assert "another session" in answer.text


def test_every_route_that_changes_something_is_one_of_a_form() -> None:
    for route in ROUTES:
        assert isinstance(route, Route)
        methods = (route.methods or set()) - {"GET", "HEAD"}
        assert not methods or (methods == {"POST"} and getattr(route.endpoint, "takes_form", False)), route.path


@pytest.mark.parametrize(
    ("site", "mode", "dest", "status"),
    [
        ("cross-site", "no-cors", "script", 403), ("same-site", "cors", "empty", 403),
        ("cross-site", "navigate", "iframe", 403),
        ("same-site", "no-cors", "image", 403), ("cross-site", "navigate", "document", 200),
        ("none", "navigate", "document", 200),
        ("same-origin", "cors", "empty", 200),
    ],
)  # fmt: skip
def test_another_page_cannot_load_parts_of_the_bench(
    client: Client, site: str, mode: str, dest: str, status: int
) -> None:
    answer = client.get("/", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest})
    assert answer.status_code == status


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_other_methods_are_refused(client: Client, method: str) -> None:
    assert client.request(method, "/tables").status_code == 405


@pytest.mark.parametrize("path", ["/", "/tables", "/static/app.js", "/nowhere", "/?token=wrong"])
def test_every_answer_has_the_headers_that_keep_it_in(client: Client, path: str) -> None:
    headers = client.get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert not [name for name in headers if name.startswith("access-control")]


def test_no_page_has_a_script_or_a_style_inside(client: Client) -> None:
    for path in ("/", "/tables", "/compare", "/jobs", "/nowhere"):
        text = client.get(path).text
        assert text.count("<script") == text.count('<script src="/static/')
        assert "<style" not in text
        assert " style=" not in text
        assert " onclick=" not in text


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.js", "/static/..%2f..%2fpyproject.toml", "/static/%2e%2e/guard.py", "/static//etc/passwd",
        "/static/vendored.json", "/tables/../../etc/passwd", "/tables/1%2f..%2f..", "/tables/-1", "/tables/1e3", "/tables/999",
        "/jobs/0x1", "/jobs/1;ls", "/compare/%00", "/tables/%F0%9F%92%A9", "/tables/99999999999999999999999999",
    ],
)  # fmt: skip
def test_no_address_leads_to_a_file(client: Client, path: str) -> None:
    answer = client.get(path, follow_redirects=False)
    assert answer.status_code == 404
    assert "There is no such page." in answer.text or "root:" not in answer.text


def test_a_page_leads_back_to_the_bench_and_nowhere_else(client: Client) -> None:
    for back in (
        "https://evil.example",
        "//evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "",
        "/\t/evil.example",
    ):
        answer = client.submit("/language", language="nl", back=back)
        assert answer.headers["location"] in ("/", "/%09/evil.example")
    assert client.submit("/language", language="nl", back="/tables").headers["location"] == "/tables"
