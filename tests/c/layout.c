// The layout of the C interface on 64-bit machines, in numbers: a change of one is a change of the ABI.
#include "takt/c/takt.h"

#if UINTPTR_MAX == UINT64_MAX

#define SIZE(type, size) _Static_assert(sizeof(type) == (size), "size of " #type)
#define PLACE(type, field, offset) _Static_assert(offsetof(type, field) == (offset), "place of " #type "." #field)

SIZE(takt_error, 512);
PLACE(takt_error, struct_size, 0);
PLACE(takt_error, code, 4);
PLACE(takt_error, text, 8);

SIZE(takt_stat, 16);
PLACE(takt_stat, name, 0);
PLACE(takt_stat, value, 8);

SIZE(takt_estimate, 32);
PLACE(takt_estimate, mean, 0);
PLACE(takt_estimate, quantiles, 8);
PLACE(takt_estimate, reserved, 28);

SIZE(takt_work_after, 40);
PLACE(takt_work_after, calls, 0);
PLACE(takt_work_after, prompt_tokens, 8);
PLACE(takt_work_after, output_tokens, 16);
PLACE(takt_work_after, kv_steps, 24);
PLACE(takt_work_after, path_tokens, 32);

SIZE(takt_next_call, 24);
PLACE(takt_next_call, tool, 0);
PLACE(takt_next_call, after, 8);
PLACE(takt_next_call, returned, 12);
PLACE(takt_next_call, duration, 16);

SIZE(takt_model_score, 16);
PLACE(takt_model_score, model, 0);
PLACE(takt_model_score, score, 8);
PLACE(takt_model_score, tokens, 12);

SIZE(takt_request, 304);
PLACE(takt_request, struct_size, 0);
PLACE(takt_request, flags, 4);
PLACE(takt_request, id, 8);
PLACE(takt_request, workflow, 16);
PLACE(takt_request, stage, 24);
PLACE(takt_request, agent, 32);
PLACE(takt_request, tenant, 40);
PLACE(takt_request, adapter, 48);
PLACE(takt_request, arrival, 56);
PLACE(takt_request, workflow_arrival, 64);
PLACE(takt_request, deadline, 72);
PLACE(takt_request, expires_at, 80);
PLACE(takt_request, prompt_tokens, 88);
PLACE(takt_request, max_output_tokens, 92);
PLACE(takt_request, sequences, 96);
PLACE(takt_request, priority, 100);
PLACE(takt_request, output_tokens, 104);
PLACE(takt_request, workflow_tokens_left, 136);
PLACE(takt_request, after, 168);
PLACE(takt_request, next_call, 208);
PLACE(takt_request, compute, 232);
PLACE(takt_request, prefix_hashes, 240);
PLACE(takt_request, n_prefix_hashes, 248);
PLACE(takt_request, prefix_block_tokens, 256);
PLACE(takt_request, reserved, 260);
PLACE(takt_request, scores, 264);
PLACE(takt_request, n_scores, 272);
PLACE(takt_request, session, 280);
PLACE(takt_request, branch, 288);
PLACE(takt_request, salt, 296);

SIZE(takt_instance, 64);
PLACE(takt_instance, struct_size, 0);
PLACE(takt_instance, kv_tokens, 4);
PLACE(takt_instance, id, 8);
PLACE(takt_instance, model, 16);
PLACE(takt_instance, capacity, 24);
PLACE(takt_instance, token_s, 32);
PLACE(takt_instance, profile, 40);
PLACE(takt_instance, role, 48);
PLACE(takt_instance, reserved, 52);
PLACE(takt_instance, life, 56);

SIZE(takt_stage, 40);
PLACE(takt_stage, stage, 0);
PLACE(takt_stage, after, 8);
PLACE(takt_stage, n_after, 16);
PLACE(takt_stage, cost_s, 24);
PLACE(takt_stage, calls, 32);
PLACE(takt_stage, reserved, 36);

SIZE(takt_workflow, 56);
PLACE(takt_workflow, struct_size, 0);
PLACE(takt_workflow, open, 4);
PLACE(takt_workflow, id, 8);
PLACE(takt_workflow, tenant, 16);
PLACE(takt_workflow, arrival, 24);
PLACE(takt_workflow, deadline, 32);
PLACE(takt_workflow, stages, 40);
PLACE(takt_workflow, n_stages, 48);

SIZE(takt_agent_rank, 32);
PLACE(takt_agent_rank, agent, 0);
PLACE(takt_agent_rank, rank, 8);
PLACE(takt_agent_rank, execution_s, 16);
PLACE(takt_agent_rank, stages_left, 24);
PLACE(takt_agent_rank, reserved, 28);

SIZE(takt_epoch, 64);
PLACE(takt_epoch, struct_size, 0);
PLACE(takt_epoch, told, 4);
PLACE(takt_epoch, ranks, 8);
PLACE(takt_epoch, n_ranks, 16);
PLACE(takt_epoch, otherwise, 24);
PLACE(takt_epoch, alpha, 56);

SIZE(takt_event, 64);
PLACE(takt_event, type, 0);
PLACE(takt_event, reserved, 4);
PLACE(takt_event, u, 8);

SIZE(takt_limits, 36);
PLACE(takt_limits, struct_size, 0);
PLACE(takt_limits, tokens, 4);
PLACE(takt_limits, max_seqs, 8);
PLACE(takt_limits, prefill_tokens, 12);
PLACE(takt_limits, chunk_tokens, 16);
PLACE(takt_limits, adapters, 20);
PLACE(takt_limits, swap_out, 24);
PLACE(takt_limits, swap_in, 28);
PLACE(takt_limits, chunk_align, 32);

SIZE(takt_plan_entry, 24);
PLACE(takt_plan_entry, request, 0);
PLACE(takt_plan_entry, lane, 8);
PLACE(takt_plan_entry, tokens, 12);
PLACE(takt_plan_entry, position, 16);
PLACE(takt_plan_entry, speculative, 20);
PLACE(takt_plan_entry, flags, 22);

SIZE(takt_row_result, 16);
PLACE(takt_row_result, request, 0);
PLACE(takt_row_result, lane, 8);
PLACE(takt_row_result, tokens, 12);
PLACE(takt_row_result, drafts, 14);
PLACE(takt_row_result, flags, 15);

SIZE(takt_move, 32);
PLACE(takt_move, id, 0);
PLACE(takt_move, request, 8);
PLACE(takt_move, action, 16);
PLACE(takt_move, reserved, 17);
PLACE(takt_move, first, 20);
PLACE(takt_move, count, 24);
PLACE(takt_move, reserved_too, 28);

SIZE(takt_preemption, 16);
PLACE(takt_preemption, request, 0);
PLACE(takt_preemption, action, 8);
PLACE(takt_preemption, reserved, 9);

SIZE(takt_failure, 16);
PLACE(takt_failure, request, 0);
PLACE(takt_failure, reason, 8);
PLACE(takt_failure, reserved, 9);
PLACE(takt_failure, code, 10);
PLACE(takt_failure, reserved_too, 12);

SIZE(takt_dropped_prefix, 16);
PLACE(takt_dropped_prefix, hash, 0);
PLACE(takt_dropped_prefix, blocks, 8);
PLACE(takt_dropped_prefix, reserved, 12);
SIZE(takt_cache_hint, 40);
PLACE(takt_cache_hint, workflow, 0);
PLACE(takt_cache_hint, branch, 8);
PLACE(takt_cache_hint, action, 16);
PLACE(takt_cache_hint, priority, 17);
PLACE(takt_cache_hint, reserved, 18);
PLACE(takt_cache_hint, until, 24);
PLACE(takt_cache_hint, tokens, 32);
PLACE(takt_cache_hint, reserved_too, 36);

SIZE(takt_host_chunk, 16);
PLACE(takt_host_chunk, hash, 0);
PLACE(takt_host_chunk, blocks, 8);
PLACE(takt_host_chunk, action, 12);
PLACE(takt_host_chunk, reserved, 13);

SIZE(takt_plan, 160);
PLACE(takt_plan, struct_size, 0);
PLACE(takt_plan, idle, 4);
PLACE(takt_plan, id, 8);
PLACE(takt_plan, run, 16);
PLACE(takt_plan, n_run, 24);
PLACE(takt_plan, moves, 32);
PLACE(takt_plan, n_moves, 40);
PLACE(takt_plan, preempted, 48);
PLACE(takt_plan, n_preempted, 56);
PLACE(takt_plan, failed, 64);
PLACE(takt_plan, n_failed, 72);
PLACE(takt_plan, released, 80);
PLACE(takt_plan, n_released, 88);
PLACE(takt_plan, wake_at, 96);
PLACE(takt_plan, tokens, 104);
PLACE(takt_plan, reserved, 108);
PLACE(takt_plan, dropped, 112);
PLACE(takt_plan, n_dropped, 120);
PLACE(takt_plan, hints, 128);
PLACE(takt_plan, n_hints, 136);
PLACE(takt_plan, host_chunks, 144);
PLACE(takt_plan, n_host_chunks, 152);

SIZE(takt_kv_snapshot, 16);
PLACE(takt_kv_snapshot, total, 0);
PLACE(takt_kv_snapshot, free, 4);
PLACE(takt_kv_snapshot, pending, 8);
PLACE(takt_kv_snapshot, reserved, 12);

SIZE(takt_kv_hit, 40);
PLACE(takt_kv_hit, request, 0);
PLACE(takt_kv_hit, prefix_hashes, 8);
PLACE(takt_kv_hit, n_prefix_hashes, 16);
PLACE(takt_kv_hit, prefix_block_tokens, 24);
PLACE(takt_kv_hit, prompt_tokens, 28);
PLACE(takt_kv_hit, tokens, 32);
PLACE(takt_kv_hit, reserved, 36);

SIZE(takt_kv_wish, 32);
PLACE(takt_kv_wish, request, 0);
PLACE(takt_kv_wish, have, 8);
PLACE(takt_kv_wish, want, 12);
PLACE(takt_kv_wish, admission, 16);
PLACE(takt_kv_wish, granted, 20);
PLACE(takt_kv_wish, refusal, 24);
PLACE(takt_kv_wish, reserved, 28);

SIZE(takt_kv_oracle, 48);
PLACE(takt_kv_oracle, struct_size, 0);
PLACE(takt_kv_oracle, block_tokens, 4);
PLACE(takt_kv_oracle, context, 8);
PLACE(takt_kv_oracle, snapshot, 16);
PLACE(takt_kv_oracle, cached, 24);
PLACE(takt_kv_oracle, reserve, 32);
PLACE(takt_kv_oracle, release, 40);

SIZE(takt_request_state, 40);
PLACE(takt_request_state, struct_size, 0);
PLACE(takt_request_state, has_run, 4);
PLACE(takt_request_state, request, 8);
PLACE(takt_request_state, enqueued, 16);
PLACE(takt_request_state, generated, 24);
PLACE(takt_request_state, returned, 28);
PLACE(takt_request_state, computed, 32);
PLACE(takt_request_state, reserved, 36);

SIZE(takt_key, 32);
PLACE(takt_key, struct_size, 0);
PLACE(takt_key, reserved, 4);
PLACE(takt_key, name, 8);
PLACE(takt_key, context, 16);
PLACE(takt_key, key, 24);

SIZE(takt_scheduler_options, 184);
PLACE(takt_scheduler_options, struct_size, 0);
PLACE(takt_scheduler_options, max_running, 4);
PLACE(takt_scheduler_options, max_waiting, 8);
PLACE(takt_scheduler_options, reserve_requests, 16);
PLACE(takt_scheduler_options, shed, 24);
PLACE(takt_scheduler_options, order, 28);
PLACE(takt_scheduler_options, preempt, 32);
PLACE(takt_scheduler_options, preempt_action, 36);
PLACE(takt_scheduler_options, preempt_margin, 40);
PLACE(takt_scheduler_options, kv, 48);
PLACE(takt_scheduler_options, kv_block_tokens, 52);
PLACE(takt_scheduler_options, kv_blocks, 56);
PLACE(takt_scheduler_options, cpu_blocks, 60);
PLACE(takt_scheduler_options, kv_watermark, 64);
PLACE(takt_scheduler_options, prefix_cache, 72);
PLACE(takt_scheduler_options, admission_window, 76);
PLACE(takt_scheduler_options, first_step, 80);
PLACE(takt_scheduler_options, hash_seed, 88);
PLACE(takt_scheduler_options, max_step_tokens, 96);
PLACE(takt_scheduler_options, max_step_seqs, 100);
PLACE(takt_scheduler_options, policy, 104);
PLACE(takt_scheduler_options, pause, 112);
PLACE(takt_scheduler_options, record, 120);
PLACE(takt_scheduler_options, record_context, 128);
PLACE(takt_scheduler_options, record_flush_bytes, 136);
PLACE(takt_scheduler_options, record_plans, 144);
PLACE(takt_scheduler_options, reserved, 148);
PLACE(takt_scheduler_options, oracle, 152);
PLACE(takt_scheduler_options, key, 160);
PLACE(takt_scheduler_options, pin_share, 168);
PLACE(takt_scheduler_options, prefix_cpu_blocks, 176);
PLACE(takt_scheduler_options, prefix_wait, 180);

SIZE(takt_scheduler_counts, 48);
PLACE(takt_scheduler_counts, struct_size, 0);
PLACE(takt_scheduler_counts, draining, 4);
PLACE(takt_scheduler_counts, alive, 8);
PLACE(takt_scheduler_counts, waiting, 16);
PLACE(takt_scheduler_counts, running, 24);
PLACE(takt_scheduler_counts, paused, 32);
PLACE(takt_scheduler_counts, blocked, 40);

SIZE(takt_kv_use, 40);
PLACE(takt_kv_use, struct_size, 0);
PLACE(takt_kv_use, total, 4);
PLACE(takt_kv_use, used, 8);
PLACE(takt_kv_use, free, 12);
PLACE(takt_kv_use, cached, 16);
PLACE(takt_kv_use, pending, 20);
PLACE(takt_kv_use, cpu_total, 24);
PLACE(takt_kv_use, cpu_used, 28);
PLACE(takt_kv_use, cpu_cached, 32);
PLACE(takt_kv_use, reserved, 36);

SIZE(takt_key_part, 32);
PLACE(takt_key_part, name, 0);
PLACE(takt_key_part, value, 24);

SIZE(takt_held, 80);
PLACE(takt_held, struct_size, 0);
PLACE(takt_held, its_class, 4);
PLACE(takt_held, tokens, 8);
PLACE(takt_held, own, 12);
PLACE(takt_held, turns, 16);
PLACE(takt_held, awaited, 20);
PLACE(takt_held, in_use, 24);
PLACE(takt_held, ahead, 28);
PLACE(takt_held, since, 32);
PLACE(takt_held, value, 40);
PLACE(takt_held, price, 48);
PLACE(takt_held, next, 56);
PLACE(takt_held, next_branch, 64);
PLACE(takt_held, pinned_until, 72);

SIZE(takt_explanation, 448);
PLACE(takt_explanation, struct_size, 0);
PLACE(takt_explanation, status, 4);
PLACE(takt_explanation, waits_for, 8);
PLACE(takt_explanation, promoted, 12);
PLACE(takt_explanation, key, 16);
PLACE(takt_explanation, ahead, 24);
PLACE(takt_explanation, known, 32);
PLACE(takt_explanation, computed, 36);
PLACE(takt_explanation, in_flight, 40);
PLACE(takt_explanation, generated, 44);
PLACE(takt_explanation, kv_blocks, 48);
PLACE(takt_explanation, cpu_blocks, 52);
PLACE(takt_explanation, n_parts, 56);
PLACE(takt_explanation, passed, 60);
PLACE(takt_explanation, parts, 64);

SIZE(takt_queue_options, 40);
PLACE(takt_queue_options, struct_size, 0);
PLACE(takt_queue_options, reserve_requests, 8);
PLACE(takt_queue_options, hash_seed, 16);
PLACE(takt_queue_options, policy, 24);
PLACE(takt_queue_options, key, 32);

SIZE(takt_call, 72);
PLACE(takt_call, struct_size, 0);
PLACE(takt_call, calls_before, 4);
PLACE(takt_call, model, 8);
PLACE(takt_call, kind, 16);
PLACE(takt_call, stage, 24);
PLACE(takt_call, text, 32);
PLACE(takt_call, n_text, 40);
PLACE(takt_call, prompt_tokens, 48);
PLACE(takt_call, system_tokens, 52);
PLACE(takt_call, user_tokens, 56);
PLACE(takt_call, tokens_before, 60);
PLACE(takt_call, generated, 64);
PLACE(takt_call, reserved, 68);

SIZE(takt_tool_profile_options, 40);
PLACE(takt_tool_profile_options, struct_size, 0);
PLACE(takt_tool_profile_options, max_classes, 4);
PLACE(takt_tool_profile_options, window, 8);
PLACE(takt_tool_profile_options, seed_weight, 16);
PLACE(takt_tool_profile_options, max_seconds, 24);
PLACE(takt_tool_profile_options, hash_seed, 32);

SIZE(takt_tool_call, 32);
PLACE(takt_tool_call, tool, 0);
PLACE(takt_tool_call, seconds, 8);
PLACE(takt_tool_call, returned_tokens, 16);
PLACE(takt_tool_call, tokens_before, 24);

SIZE(takt_tool_expectation, 136);
PLACE(takt_tool_expectation, struct_size, 0);
PLACE(takt_tool_expectation, pooled, 4);
PLACE(takt_tool_expectation, seconds, 8);
PLACE(takt_tool_expectation, returned_tokens, 40);
PLACE(takt_tool_expectation, tokens_before, 72);
PLACE(takt_tool_expectation, seconds_spread, 104);
PLACE(takt_tool_expectation, returned_spread, 112);
PLACE(takt_tool_expectation, before_spread, 120);
PLACE(takt_tool_expectation, observations, 128);

SIZE(takt_ran, 16);
PLACE(takt_ran, request, 0);
PLACE(takt_ran, prefill, 8);
PLACE(takt_ran, output, 12);

SIZE(takt_pressure, 24);
PLACE(takt_pressure, struct_size, 0);
PLACE(takt_pressure, head, 4);
PLACE(takt_pressure, limits, 8);
PLACE(takt_pressure, kv_tokens, 16);
PLACE(takt_pressure, engines, 20);

SIZE(takt_holding, 16);
PLACE(takt_holding, request, 0);
PLACE(takt_holding, blocks, 8);

SIZE(takt_router_options, 64);
PLACE(takt_router_options, struct_size, 0);
PLACE(takt_router_options, window, 4);
PLACE(takt_router_options, max_outstanding, 8);
PLACE(takt_router_options, reserve_requests, 16);
PLACE(takt_router_options, hash_seed, 24);
PLACE(takt_router_options, fail_unfit, 32);
PLACE(takt_router_options, reserved, 36);
PLACE(takt_router_options, policy, 40);
PLACE(takt_router_options, placement, 48);
PLACE(takt_router_options, key, 56);

SIZE(takt_placement, 32);
PLACE(takt_placement, request, 0);
PLACE(takt_placement, instance, 8);
PLACE(takt_placement, decode, 16);
PLACE(takt_placement, life, 24);

SIZE(takt_workflow_end, 48);
PLACE(takt_workflow_end, workflow, 0);
PLACE(takt_workflow_end, how, 8);
PLACE(takt_workflow_end, reserved, 9);
PLACE(takt_workflow_end, arrival, 16);
PLACE(takt_workflow_end, end, 24);
PLACE(takt_workflow_end, deadline, 32);
PLACE(takt_workflow_end, stage, 40);
PLACE(takt_workflow_end, reserved_too, 44);

SIZE(takt_workflow_fault, 32);
PLACE(takt_workflow_fault, kind, 0);
PLACE(takt_workflow_fault, reserved, 1);
PLACE(takt_workflow_fault, workflow, 8);
PLACE(takt_workflow_fault, stage, 16);
PLACE(takt_workflow_fault, reserved_too, 20);
PLACE(takt_workflow_fault, site, 24);

SIZE(takt_routing, 80);
PLACE(takt_routing, struct_size, 0);
PLACE(takt_routing, reserved, 4);
PLACE(takt_routing, placed, 8);
PLACE(takt_routing, n_placed, 16);
PLACE(takt_routing, failed, 24);
PLACE(takt_routing, n_failed, 32);
PLACE(takt_routing, ended, 40);
PLACE(takt_routing, n_ended, 48);
PLACE(takt_routing, faults, 56);
PLACE(takt_routing, n_faults, 64);
PLACE(takt_routing, wake_at, 72);

SIZE(takt_router_counts, 32);
PLACE(takt_router_counts, struct_size, 0);
PLACE(takt_router_counts, instances, 4);
PLACE(takt_router_counts, alive, 8);
PLACE(takt_router_counts, waiting, 16);
PLACE(takt_router_counts, set_aside, 24);

SIZE(takt_replay_report, 328);
PLACE(takt_replay_report, struct_size, 0);
PLACE(takt_replay_report, differs, 4);
PLACE(takt_replay_report, truncated, 8);
PLACE(takt_replay_report, reserved, 12);
PLACE(takt_replay_report, events, 16);
PLACE(takt_replay_report, plans, 24);
PLACE(takt_replay_report, commits, 32);
PLACE(takt_replay_report, plans_compared, 40);
PLACE(takt_replay_report, bytes, 48);
PLACE(takt_replay_report, different_step, 56);
PLACE(takt_replay_report, different_at, 64);
PLACE(takt_replay_report, difference, 72);
PLACE(takt_event, u.arrived.request, 8);
PLACE(takt_event, u.revised.request, 8);
PLACE(takt_event, u.revised.told, 16);
PLACE(takt_event, u.revised.reserved, 20);
PLACE(takt_event, u.tool_called.request, 8);
PLACE(takt_event, u.tool_called.expected, 16);
PLACE(takt_event, u.tool_called.expected_returned, 24);
PLACE(takt_event, u.tool_called.reserved, 28);
PLACE(takt_event, u.tool_called.tool, 32);
PLACE(takt_event, u.tool_returned.request, 8);
PLACE(takt_event, u.tool_returned.returned, 16);
PLACE(takt_event, u.tool_returned.reserved, 20);
PLACE(takt_event, u.tool_returned.next_call, 24);
PLACE(takt_event, u.turn_ended.workflow, 8);
PLACE(takt_event, u.turn_ended.branch, 16);
PLACE(takt_event, u.turn_ended.why, 24);
PLACE(takt_event, u.turn_ended.reserved, 28);
PLACE(takt_event, u.turn_ended.tool, 32);
PLACE(takt_event, u.turn_ended.expected, 40);
PLACE(takt_event, u.turn_ended.pin, 48);
PLACE(takt_event, u.turn_expected.workflow, 8);
PLACE(takt_event, u.turn_expected.branch, 16);
PLACE(takt_event, u.turn_expected.when, 24);
PLACE(takt_event, u.move_done.move, 8);
PLACE(takt_event, u.move_done.failed, 16);
PLACE(takt_event, u.move_done.reserved, 20);
PLACE(takt_event, u.request_started.request, 8);
PLACE(takt_event, u.request_started.instance, 16);
PLACE(takt_event, u.request_started.life, 24);
PLACE(takt_event, u.request_served.request, 8);
PLACE(takt_event, u.request_served.instance, 16);
PLACE(takt_event, u.request_served.prefill, 24);
PLACE(takt_event, u.request_served.output, 28);
PLACE(takt_event, u.request_served.life, 32);
PLACE(takt_event, u.request_ended.request, 8);
PLACE(takt_event, u.request_ended.instance, 16);
PLACE(takt_event, u.request_ended.prefill, 24);
PLACE(takt_event, u.request_ended.output, 28);
PLACE(takt_event, u.request_ended.failed, 32);
PLACE(takt_event, u.request_ended.served, 36);
PLACE(takt_event, u.request_ended.life, 40);
PLACE(takt_event, u.instance_up.instance, 8);
PLACE(takt_event, u.instance_down.instance, 8);
PLACE(takt_event, u.instance_down.life, 16);
PLACE(takt_event, u.instance_reported.instance, 8);
PLACE(takt_event, u.instance_reported.waiting, 16);
PLACE(takt_event, u.instance_reported.running, 24);
PLACE(takt_event, u.instance_reported.preempted, 32);
PLACE(takt_event, u.instance_reported.kv_used, 40);
PLACE(takt_event, u.instance_reported.dated, 44);
PLACE(takt_event, u.instance_reported.as_of, 48);
PLACE(takt_event, u.instance_reported.life, 56);
PLACE(takt_event, u.workflow_declared.workflow, 8);
PLACE(takt_event, u.workflow_grown.workflow, 8);
PLACE(takt_event, u.workflow_grown.stage, 16);
PLACE(takt_event, u.workflow_grown.before, 24);
PLACE(takt_event, u.workflow_grown.n_before, 32);
PLACE(takt_event, u.stage_ended.workflow, 8);
PLACE(takt_event, u.stage_ended.stage, 16);
PLACE(takt_event, u.stage_ended.reserved, 20);
PLACE(takt_event, u.workflow_ended.workflow, 8);
PLACE(takt_event, u.workflow_ended.cancelled, 16);
PLACE(takt_event, u.workflow_ended.reserved, 20);

#endif
