"""What mosquitto_pub and mosquitto_sub may expect: QoS, sessions, retained messages, wills, groups, properties."""

import subprocess
import time
import unittest

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from gateway import PATIENCE, wait_until
from lossy import WithGateway


class MosquittoTest(WithGateway):
    def arguments(self, program, *arguments):
        return [program, "-h", "127.0.0.1", "-p", str(self.gateway.port), *map(str, arguments)]

    def subscribe(self, *arguments, count=1):
        """A mosquitto_sub that is subscribed; it ends by itself after `count` messages."""
        before = self.gateway.metric("pulsegate_packets_sent_total", type="suback")
        process = subprocess.Popen(self.arguments("mosquitto_sub", "-C", count, "-W", 60, *arguments),
                                   stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_until(lambda: self.gateway.metric("pulsegate_packets_sent_total", type="suback") > before,
                   what="SUBACK")
        return process

    def lines(self, process):
        return process.communicate(timeout=60)[0].splitlines()

    def publish(self, *arguments, lines=None):
        subprocess.run(self.arguments("mosquitto_pub", *arguments), input=lines, text=True, check=True, timeout=60)

    def come_and_go(self, *arguments):
        """Leaves a session behind."""
        subprocess.run(self.arguments("mosquitto_sub", "-E", *arguments), check=True, timeout=60,
                       stdin=subprocess.DEVNULL)

    def test_each_qos_arrives_as_the_lower_of_both(self):
        subs = []
        for version in ("311", "5"):
            for qos in (0, 1, 2):
                subs.append((qos, self.subscribe("-V", version, "-q", qos, "-t", "qos/#", "-F", "%t %q %p", count=6)))
        sent = []
        for version in ("311", "5"):
            for qos in (0, 1, 2):
                self.publish("-V", version, "-q", qos, "-t", f"qos/{qos}", "-m", f"from {version}")
                sent.append((qos, version))
        for highest, sub in subs:
            # Each comes from a client of its own: in any order.
            self.assertCountEqual(self.lines(sub), [f"qos/{qos} {min(qos, highest)} from {version}"
                                                    for qos, version in sent])

    def test_a_thousand_lines_of_qos_2_arrive_once_and_in_order(self):
        for version in ("311", "5"):
            with self.subTest(version=version):
                lines = [f"line {number}" for number in range(1000)]
                sub = self.subscribe("-V", version, "-q", 2, "-t", "lines", count=1000)
                self.publish("-V", version, "-q", 2, "-t", "lines", "-l", lines="\n".join(lines) + "\n")
                self.assertEqual(self.lines(sub), lines)

    def test_a_session_keeps_what_came_while_its_client_was_away(self):
        for version in ("311", "5"):
            with self.subTest(version=version):
                who = ("-V", version, "-c", "-i", f"away{version}", "-q", 2, "-t", f"away/{version}")
                self.come_and_go(*who)
                for number, qos in enumerate((1, 0, 1, 2, 0, 2)):  # what has QoS 0 is not kept
                    self.publish("-q", qos, "-t", f"away/{version}", "-m", f"{number} at {qos}")
                self.assertEqual(self.lines(self.subscribe(*who, count=4)),
                                 ["0 at 1", "2 at 1", "3 at 2", "5 at 2"])

    def test_without_c_nothing_is_kept(self):
        absent = self.gateway.metric("pulsegate_sessions_disconnected")
        for version in ("311", "5"):
            self.come_and_go("-V", version, "-i", f"clean{version}", "-q", 2, "-t", f"clean/{version}")
        self.wait_for_metric(absent, "pulsegate_sessions_disconnected")
        self.publish("-q", 2, "-t", "clean/5", "-m", "x")
        sub = self.subscribe("-V", 5, "-c", "-i", "clean5", "-q", 2, "-t", "clean/5")
        self.publish("-q", 2, "-t", "clean/5", "-m", "y")
        self.assertEqual(self.lines(sub), ["y"])

    def test_an_inbox_reaches_devices_that_listen_to_something_else(self):
        for version in ("311", "5"):
            with self.subTest(version=version):
                user, inbox = f"ann/{version}", f"inbox/ann%2F{version}"
                who = ("-V", version, "-u", user, "-F", "%t %p")
                away = (*who, "-c", "-i", f"tablet{version}", "-q", 1, "-t", "room/1")
                self.come_and_go(*away)
                there = [self.subscribe(*who, "-t", topic) for topic in ("room/1", inbox)]
                self.publish("-q", 1, "-t", inbox, "-m", "hello")
                for sub in there:
                    self.assertEqual(self.lines(sub), [f"{inbox} hello"])
                self.publish("-q", 1, "-t", "room/1", "-m", "to all")
                self.assertEqual(self.lines(self.subscribe(*away, count=2)), [f"{inbox} hello", "room/1 to all"])

    def test_a_session_of_5_0_ends_when_its_time_is_over(self):
        expired = self.gateway.metric("pulsegate_sessions_expired_total")
        who = ("-V", 5, "-c", "-i", "expires", "-x", 1, "-q", 1, "-t", "expires")
        self.come_and_go(*who)
        self.publish("-q", 1, "-t", "expires", "-m", "too late")
        self.wait_for_metric(expired + 1, "pulsegate_sessions_expired_total")
        sub = self.subscribe(*who)
        self.publish("-q", 1, "-t", "expires", "-m", "anew")
        self.assertEqual(self.lines(sub), ["anew"])

    def test_disconnect_may_shorten_a_session(self):
        absent = self.gateway.metric("pulsegate_sessions_disconnected")
        who = ("-V", 5, "-c", "-i", "shortens", "-q", 1, "-t", "shortens")
        self.come_and_go(*who)
        self.wait_for_metric(absent + 1, "pulsegate_sessions_disconnected")
        self.come_and_go(*who, "-D", "disconnect", "session-expiry-interval", 0)
        self.wait_for_metric(absent, "pulsegate_sessions_disconnected")

    def test_a_retained_message_waits_for_subscribers_until_it_is_deleted(self):
        for version in ("311", "5"):
            with self.subTest(version=version):
                topic = f"kept/{version}"
                live = self.subscribe("-V", version, "-q", 2, "-t", topic, "-F", "%r %q %p", count=3)
                self.publish("-V", version, "-q", 1, "-r", "-t", topic, "-m", "first")
                self.publish("-V", version, "-q", 2, "-r", "-t", topic, "-m", "second")
                late = self.subscribe("-V", version, "-q", 2, "-t", f"+/{version}", "-F", "%r %q %p", count=2)
                self.publish("-V", version, "-r", "-n", "-t", topic)  # deletes
                self.assertEqual(self.lines(live), ["0 1 first", "0 2 second", "0 0 "])
                self.assertEqual(self.lines(late), ["1 2 second", "0 0 "])
                after = self.subscribe("-V", version, "-t", topic)
                self.publish("-t", topic, "-m", "not kept")
                self.assertEqual(self.lines(after), ["not kept"])

    def test_retained_messages_can_be_left_out_and_cleared_away(self):
        for name in ("a", "b"):
            self.publish("-r", "-t", f"tidy/{name}", "-m", name)
        fresh = self.subscribe("-R", "-t", "tidy/+")
        self.publish("-t", "tidy/c", "-m", "c")
        self.assertEqual(self.lines(fresh), ["c"])
        kept = self.gateway.metric("pulsegate_retained_messages")
        self.subscribe("-t", "tidy/+", "--retained-only", "--remove-retained", count=100)
        wait_until(lambda: self.gateway.metric("pulsegate_retained_messages") < kept, what="fewer of them")

    def test_a_will_is_published_for_a_killed_client_and_not_after_a_disconnect(self):
        def mortal(version, topic):
            return ("-V", version, "-i", topic, "-t", "nothing", "--will-topic", topic, "--will-qos", 2,
                    "--will-payload", "gone", "--will-retain")
        for version in ("311", "5"):
            with self.subTest(version=version):
                left, killed, ended = (f"{fate}/{version}" for fate in ("left", "killed", "ended"))
                self.come_and_go(*mortal(version, left))
                self.gateway.wait_for_event(user=left, cause="logout")
                self.assertEqual(self.will_at(left), "none")

                watcher = self.subscribe("-q", 2, "-t", killed, "-F", "%q %r %p")
                self.subscribe(*mortal(version, killed)).kill()
                self.assertEqual(self.lines(watcher), ["2 0 gone"])
                self.assertEqual(self.will_at(killed), "gone")

                self.subscribe(*mortal(version, ended)).terminate()
                self.gateway.wait_for_event(user=ended, cause="logout")
                # In 5.0 mosquitto then asks for its will: DISCONNECT with 0x04.
                self.assertEqual(self.will_at(ended), "gone" if version == "5" else "none")

    def will_at(self, topic):
        """Its retained message: that of the will, if it was published."""
        sub = self.subscribe("-q", 1, "-t", topic)
        self.publish("-q", 1, "-t", topic, "-m", "none")
        return self.lines(sub)[0]

    def test_a_will_of_5_0_waits_and_has_properties(self):
        watcher = self.subscribe("-V", 5, "-q", 1, "-t", "later", "-F", "%p %C %P %E")
        mortal = self.subscribe("-V", 5, "-c", "-i", "mortal", "-t", "nothing", "--will-topic", "later",
                                "--will-payload", "gone", "--will-qos", 1,
                                "-D", "will", "will-delay-interval", 1, "-D", "will", "content-type", "text/plain",
                                "-D", "will", "user-property", "color", "black",
                                "-D", "will", "message-expiry-interval", 3600)
        killed = time.monotonic()
        mortal.kill()
        *told, left = self.lines(watcher)[0].split()
        self.assertEqual(told, ["gone", "text/plain", "color:black"])
        self.assert_left(int(left), 3600)
        self.assertGreaterEqual(time.monotonic() - killed, 0.9)

    def test_a_group_shares_messages_and_others_get_all(self):
        done = self.gateway.metric("pulsegate_packets_received_total", type="pubcomp")
        everything = self.subscribe("-q", 2, "-t", "jobs/+", count=30)
        members = [self.subscribe("-V", version, "-q", 2, "-t", "$share/workers/jobs/#", count=31)
                   for version in ("311", "5", "5")]
        self.publish("-V", 5, "-q", 2, "-t", "jobs/x", "-l", lines="".join(f"{job}\n" for job in range(30)))
        self.assertEqual(self.lines(everything), [str(job) for job in range(30)])
        self.wait_for_metric(done + 60, "pulsegate_packets_received_total", type="pubcomp")
        for member in members:
            member.terminate()
        shares = [[int(job) for job in self.lines(member)] for member in members]
        for share in shares:
            self.assertEqual(share, sorted(share))
            self.assertEqual(len(share), 10)
        self.assertEqual(sorted(sum(shares, [])), list(range(30)))

    def test_all_properties_of_a_message_arrive(self):
        sub = self.subscribe("-V", 5, "-q", 1, "-t", "properties", "-D", "subscribe", "subscription-identifier", 300,
                             "-F", "%p|%C|%D|%E|%F|%P|%R|%S")
        self.publish("-V", 5, "-q", 1, "-t", "properties", "-m", "x",
                     *("-D publish content-type text/plain -D publish correlation-data abc "
                       "-D publish message-expiry-interval 3600 -D publish payload-format-indicator 1 "
                       "-D publish user-property a b -D publish user-property a c "
                       "-D publish response-topic some/answer").split())
        told = self.lines(sub)[0].split("|")
        self.assert_left(int(told.pop(3)), 3600)
        self.assertEqual(told, ["x", "text/plain", "abc", "1", "a:b a:c", "some/answer", "300"])

    def assert_left(self, left, expiry):
        """Of a message that is under way for less than a test may take."""
        self.assertIn(left, range(expiry - PATIENCE, expiry + 1))

    def test_a_retained_message_tells_how_long_it_still_lives_and_goes(self):
        def left():
            return int(self.lines(self.subscribe("-V", 5, "-t", "old", "-F", "%E"))[0])
        self.publish("-V", 5, "-r", "-t", "old", "-m", "x", "-D", "publish", "message-expiry-interval", 3600)
        self.assert_left(left(), 3600)
        wait_until(lambda: left() < 3599, what="some seconds less")
        kept = self.gateway.metric("pulsegate_retained_messages")
        self.publish("-V", 5, "-r", "-t", "old", "-m", "y", "-D", "publish", "message-expiry-interval", 1)
        wait_until(lambda: self.gateway.metric("pulsegate_retained_messages") < kept, what="its end")

    def test_a_message_that_waits_tells_how_long_it_still_lives_and_is_dropped_in_the_end(self):
        who = ("-V", 5, "-c", "-i", "slow", "-q", 1, "-t", "slow", "-F", "%p %E")
        self.come_and_go(*who)
        dropped = self.gateway.metric("pulsegate_messages_dropped_total", reason="expired")
        for payload, seconds in (("short", 1), ("long", 3600)):
            self.publish("-V", 5, "-q", 1, "-t", "slow", "-m", payload, "-D", "publish", "message-expiry-interval", seconds)
        # The end of a retained message of the same second says that the time is over, however slow the machine is.
        kept = self.gateway.metric("pulsegate_retained_messages")
        self.publish("-V", 5, "-q", 1, "-r", "-t", "clock", "-m", "x", "-D", "publish", "message-expiry-interval", 1)
        wait_until(lambda: self.gateway.metric("pulsegate_retained_messages") <= kept, what="a second later")
        payload, left = self.lines(self.subscribe(*who))[0].split()
        self.assertEqual(payload, "long")
        self.assertLess(int(left), 3600)
        self.assert_left(int(left), 3600)
        self.assertEqual(self.gateway.metric("pulsegate_messages_dropped_total", reason="expired"), dropped + 1)

    def test_topic_aliases_of_a_publisher(self):
        sub = self.subscribe("-q", 1, "-t", "alias", "-v", count=20)
        self.publish("-V", 5, "-q", 1, "-t", "alias", "-l", "-D", "publish", "topic-alias", 2,
                     lines="".join(f"{number}\n" for number in range(20)))
        self.assertEqual(self.lines(sub), [f"alias {number}" for number in range(20)])

    def test_limits_that_a_client_states_are_kept(self):
        for qos in (1, 2):
            slow = self.subscribe("-V", 5, "-q", qos, "-t", "limits", "-D", "connect", "receive-maximum", 1, count=100)
            self.publish("-q", 2, "-t", "limits", "-l", lines="".join(f"{number}\n" for number in range(100)))
            self.assertEqual(self.lines(slow), [str(number) for number in range(100)])
        dropped = self.gateway.metric("pulsegate_messages_dropped_total", reason="too_large_for_client")
        small = self.subscribe("-V", 5, "-q", 2, "-t", "limits", "-D", "connect", "maximum-packet-size", 100)
        self.publish("-q", 1, "-t", "limits", "-m", "x" * 100)
        self.publish("-q", 1, "-t", "limits", "-m", "fits")
        self.assertEqual(self.lines(small), ["fits"])
        self.assertEqual(self.gateway.metric("pulsegate_messages_dropped_total", reason="too_large_for_client"), dropped + 1)

    def test_requests_are_answered(self):
        clerk = self.client("clerk", paho.MQTTv5)
        clerk.subscribe("ask", 1)

        def reply(_, __, request):
            properties = Properties(PacketTypes.PUBLISH)
            where = getattr(request.properties, "ResponseTopic", "ask/reply")
            if hasattr(request.properties, "CorrelationData"):
                properties.CorrelationData = request.properties.CorrelationData
            clerk.mqtt.publish(where, b"answer to " + request.payload, 2, properties=properties)

        clerk.mqtt.on_message = reply
        for version in ("311", "5"):
            for qos in (0, 1, 2):
                with self.subTest(version=version, qos=qos):
                    ask = ("-V", version, "-q", qos, "-t", "ask", "-e", "ask/reply", "-m", f"question {qos}", "-W", 60)
                    done = subprocess.run(self.arguments("mosquitto_rr", *ask), capture_output=True, text=True,
                                          timeout=60, stdin=subprocess.DEVNULL)
                    self.assertEqual(done.stdout, f"answer to question {qos}\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
