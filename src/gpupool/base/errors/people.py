"""Errors of what people use beside jobs: logins, sessions, money, messages, entrances into jobs."""

from __future__ import annotations

from gpupool.base.errors.failures import ServiceUnavailable, TooManyRequests
from gpupool.base.errors.requests import (
    BadInput,
    NoPermission,
    NotFound,
    NotLoggedIn,
    RequestRejection,
)


class SignonRefused(NoPermission, code="GP-3040", title="A login that gets no rights here"):
    """The person is known; no rule gives rights, or a rule cannot be applied now."""


class SignonFailed(NotLoggedIn, code="GP-3041", title="A login that cannot be trusted"):
    """The provider's answer is not for this login, too old, or not signed by the provider."""


class WrongPassword(NotLoggedIn, code="GP-3042", title="Wrong user, password or code"):
    """Wrong user, password or code; it does not say which."""


class LoginLocked(NotLoggedIn, code="GP-3043", title="Login locked after wrong passwords"):
    """`details` has `retry_after_seconds`."""


class UnknownProvider(NotFound, code="GP-3044", title="Unknown identity provider"):
    """Unknown identity provider."""


class SignonUnavailable(RequestRejection, code="GP-2130", title="Sign-on cannot be used here"):
    """A library that it needs lacks, or the provider lacks a setting."""


class ProviderUnreachable(
    ServiceUnavailable, code="GP-5060", title="The identity provider does not answer"
):
    """The identity provider or directory cannot be reached, or answers an error."""


class CrossSiteRequest(NoPermission, code="GP-3060", title="A request from another site's page"):
    """The request has a session's cookie, and not the origin or the header of the console."""


class TwoCredentials(BadInput, code="GP-3061", title="A cookie and a token in one request"):
    """The request has a session's cookie and an Authorization header."""


class SealedMonth(RequestRejection, code="GP-2120", title="A sealed month does not change"):
    """`details` has the `month`."""


class BudgetBelowSpent(RequestRejection, code="GP-2121", title="A budget below what is spent"):
    """`details` has `amount` and `spent`, in the unit of the budget."""


class DocumentUnavailable(RequestRejection, code="GP-2122", title="A document cannot be made here"):
    """A program or font that makes it is not installed; the message names it."""


class BudgetSpent(RequestRejection, code="GP-2123", title="The budget is spent"):
    """`details` has the `budget`, its `amount` and what is `spent`."""


class MonthNotOver(RequestRejection, code="GP-2124", title="The month is not over"):
    """`details` has `end_ns`."""


class UnknownPriceList(NotFound, code="GP-3046", title="Unknown price list"):
    """Unknown price list."""


class UnknownBudget(NotFound, code="GP-3047", title="Unknown budget"):
    """Unknown budget."""


class ForbiddenReceiver(
    RequestRejection, code="GP-2140", title="A receiver that messages may not be sent to"
):
    """A host that is not in the admin's list, or an address of the inside."""


class TooManySubscriptions(RequestRejection, code="GP-2141", title="Too many subscriptions"):
    """`details` has the limit."""


class UnknownSubscription(NotFound, code="GP-3048", title="Unknown subscription"):
    """Unknown subscription."""


class JobUnreachable(RequestRejection, code="GP-2150", title="A job that cannot be entered now"):
    """Its agent opened no stream into it; the text says why."""


class UnknownTemplate(NotFound, code="GP-2170", title="Unknown template"):
    """No template or version of that name in the caller's reach."""


class BadTemplateValue(BadInput, code="GP-2171", title="A value that a template does not take"):
    """`details` has `fields`: each with field, problem, value and the bounds."""


class BadTemplate(BadInput, code="GP-2172", title="A template that contradicts itself"):
    """`details` has the `place` in the document."""


class TemplateVersionTaken(
    RequestRejection, code="GP-2173", title="A version of a template does not change"
):
    """`details` has the `version` and the `next` free one."""


class TemplateDisabled(RequestRejection, code="GP-2174", title="A disabled template"):
    """An admin disabled it; jobs that it made go on."""


class ShippedTemplate(RequestRejection, code="GP-2175", title="A shipped template stays"):
    """It came with gpupool: it can be disabled."""


class TooManyTemplates(RequestRejection, code="GP-2176", title="Too many templates"):
    """`details` has the limit."""


class HandoverRefused(RequestRejection, code="GP-2240", title="A user that takes no jobs over"):
    """The user is disabled, may not run jobs, or belongs to another tenant."""


class LeaverPolicyContradicts(
    RequestRejection, code="GP-2241", title="A leaver policy contradicts itself"
):
    """It names a new owner or an end that its act does not have."""


class UnknownLeaverPolicy(NotFound, code="GP-2242", title="Unknown leaver policy"):
    """There is none of that tenant and provider."""


class ScimUnavailable(RequestRejection, code="GP-2243", title="SCIM cannot be used here"):
    """A library that it needs lacks."""


class NotScimAccount(NoPermission, code="GP-2244", title="Not an account of SCIM"):
    """It is a person, or its token may more than write persons and groups."""


class ProgramMissing(RequestRejection, code="GP-2210", title="A program that is not installed"):
    """`details` has the programs of which one is needed, and the command that installs it."""


class IdleLadderContradicts(
    RequestRejection, code="GP-2180", title="An idle policy contradicts itself"
):
    """Its steps are out of order, or it takes something without a warning."""


class LooserIdlePolicy(
    RequestRejection, code="GP-2181", title="A tenant's idle policy is looser than the pool's"
):
    """`details` has the pool's `policy`."""


class KeepsSpent(RequestRejection, code="GP-2182", title="An idle job was kept too often"):
    """`details` has `per_day` and `next_ns`, from which on it can be kept again."""


class KeepTooLong(RequestRejection, code="GP-2183", title="A keep is longer than allowed"):
    """`details` has `seconds` and `most`."""


class NoIdleRule(RequestRejection, code="GP-2184", title="No idle policy is about the job"):
    """Nothing happens to the job when it is idle."""


class UnknownIdlePolicy(NotFound, code="GP-2185", title="Unknown idle policy"):
    """Unknown idle policy."""


class UnknownFamily(NotFound, code="GP-2190", title="Unknown family of jobs"):
    """No family of that name had a run, in the caller's reach and in the time."""


class NothingAdvised(RequestRejection, code="GP-2191", title="Too little is known for advice"):
    """`details` has `measured` and `needed`, the numbers of runs."""


class SeveralFamilies(RequestRejection, code="GP-2192", title="Several families have that name"):
    """`details` has the `families` with their whole names."""


class UnknownAdvicePolicy(NotFound, code="GP-2280", title="Unknown advice policy"):
    """Unknown advice policy."""


class LooserAdvicePolicy(
    RequestRejection, code="GP-2281", title="A tenant's advice policy is looser than the pool's"
):
    """`details` has the pool's `policy`, and in `looser` the parts that allow more."""


class AdvicePolicyMissing(
    RequestRejection, code="GP-2282", title="The pool has no advice policy to tighten"
):
    """A tenant's admin tightens what an admin of the pool allows; nothing is allowed yet."""


class AuditChainBroken(RequestRejection, code="GP-2160", title="The audit log does not hold"):
    """`details` has `seq`, the first record that does not fit, and `records` that do."""


class AuditFileUnusable(BadInput, code="GP-2161", title="Not a file of audit records"):
    """A file that `gpupool audit export` did not write, or that cannot be read."""


class AuditHeadMissing(RequestRejection, code="GP-2162", title="A noted head is not in the log"):
    """No record has the expected hash: the log was cut at its end, restored or written anew."""


class AuditBeginMissing(RequestRejection, code="GP-2163", title="The audit log lacks its begin"):
    """`details` has `first_seq`; no checkpoint attests the records before it."""


class UnknownIncident(NotFound, code="GP-3070", title="Unknown incident"):
    """Unknown incident, or one that ended no job of the caller's tenant."""


class UnknownXid(NotFound, code="GP-3071", title="An XID that is not in the catalogue"):
    """The driver is newer than the catalogue of this gpupool."""


class RepairBlocked(RequestRejection, code="GP-2211", title="Cards of a repair are in use"):
    """`details` has `shares` and `processes` on the `cards`; a repair would end them."""


class CardStillFailed(RequestRejection, code="GP-2212", title="A card is not healthy yet"):
    """`details` has the `cards` of the incident that have failed."""


class IncidentOver(RequestRejection, code="GP-2213", title="The incident is closed"):
    """A closed incident takes no repair; a new fault opens another one."""


class NothingProposed(RequestRejection, code="GP-2214", title="The incident needs no repair"):
    """Nothing is proposed for it: it can be closed."""


class SecretKeyMissing(ServiceUnavailable, code="GP-2270", title="The key of secrets is missing"):
    """`details` has the `file`; everything that needs no secret goes on."""


class SecretKeyWrong(ServiceUnavailable, code="GP-2271", title="Secrets need another key"):
    """`details` has the `file` and the id of the `key` that it lacks."""


class SecretKeyUnusable(ServiceUnavailable, code="GP-2272", title="A key file cannot be used"):
    """It cannot be read, written or trusted, or a line of it is not a key."""


class SecretDamaged(ServiceUnavailable, code="GP-2273", title="A secret cannot be decrypted"):
    """`details` has the `place`: the value was altered, or moved from another row."""


class UnknownDelivery(NotFound, code="GP-2274", title="Unknown delivery"):
    """Unknown delivery, or one of a subscription that the caller does not see."""


class DeliveryNotDead(RequestRejection, code="GP-2275", title="A delivery that was not given up"):
    """`details` has its `state`."""


class UnknownEnergyFactor(NotFound, code="GP-2230", title="Unknown energy factors"):
    """No energy factors of the site begin at that instant."""


class PastEnergyFactor(RequestRejection, code="GP-2231", title="Energy factors of the past stay"):
    """`details` has `from_ns`, where the factors would begin or began."""


class BadService(BadInput, code="GP-2250", title="Not a service"):
    """Its job cannot be a replica, or its bounds contradict each other."""


class UnknownService(NotFound, code="GP-2251", title="Unknown service"):
    """Unknown service."""


class TooManyServices(RequestRejection, code="GP-2252", title="Too many services"):
    """`details` has the limit."""


class ServiceNotReady(
    ServiceUnavailable, code="GP-2253", title="A service without a healthy replica"
):
    """`details` has `retry_after_seconds`."""


class ServiceBusy(TooManyRequests, code="GP-2254", title="Too many requests of one service"):
    """`details` has `retry_after_seconds`."""


class ReplicaSilent(ServiceUnavailable, code="GP-2255", title="A replica gave no answer"):
    """The request may have had an effect, so no other replica got it."""
