/**
 * Go to the login if there is no session or it has ended; an HTTP API's authoriser answers 403.
 * The part of the address after # is kept, so the login leads back to the same view.
 */
export function checkSession(response: Response): void {
  if (response.status !== 401 && response.status !== 403) return;
  location.assign(`/login${location.hash}`);
}
